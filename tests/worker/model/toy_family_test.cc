#include "tests/worker/model/toy_family.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/model_files/model_config.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/checkpoint_builder.h"
#include "tests/worker/model/plain_pebble.h"
#include "tests/worker/model/sequence_runner.h"
#include "worker/cpu/load_model.h"
#include "worker/model/plan/model_plan.h"

namespace lockstep::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A random checkpoint in a temporary folder.
class ToyFamilyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RegisterModelFamily(PebbleFamily()); }

  void SetUp() override { WritePebbleCheckpoint(folder_); }

  const std::vector<TestTensor> tensors_ = PebbleTensors();
  const TempFolder folder_;
};

TEST_F(ToyFamilyTest, ItsConfigHasTwoKindsOfLayers) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder_.path());
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->family, &PebbleFamily());
  EXPECT_EQ(config->num_layers, 4u);
  EXPECT_TRUE(config->qk_norm);
  EXPECT_THAT(config->layer_kinds,
              ElementsAre(LayerKindConfig{.window_tokens = 32, .rope = {.theta = 100.0}},
                          LayerKindConfig{.window_tokens = 0, .rope = {.theta = 10000.0}}));
  EXPECT_THAT(config->kind_of_layer, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(config->warnings, IsEmpty());
}

TEST_F(ToyFamilyTest, ItsPlanHasTwoRotationsAndTwoKvGroups) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder_.path());
  ASSERT_THAT(config, IsOk());
  const absl::StatusOr<ModelPlan> plan = MakeModelPlan(*config);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->kinds.size(), 2u);
  EXPECT_EQ(plan->rotations.size(), 2u);
  ASSERT_EQ(plan->kv_groups.size(), 2u);
  EXPECT_THAT(plan->kv_groups[0].layers, ElementsAre(1, 3));
  EXPECT_THAT(plan->kv_groups[1].layers, ElementsAre(0, 2));
  EXPECT_EQ(plan->kv_groups[1].window_tokens, 32);
}

// The CPU's error against the plain program is small, and each mistake in the plain program's
// layers makes it several times as large.
TEST_F(ToyFamilyTest, ItsLayersReadTheirWindowsAndRotateTheirWay) {
  auto model = LoadCpuModel(folder_.path(), {.num_kv_blocks = 16, .max_logits_rows = 128});
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT((*model)->info().kv_groups.size(), 2u);
  std::vector<TokenId> tokens(100);
  for (uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = (3 + 23 * i) % 64;
  SequenceRunner runner(**model, tokens);
  const std::vector<float> logits = runner.RunInStepsOf(100);
  EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(1), logits));
  EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(17), logits));

  const auto error = [&](const std::vector<PlainLayerKind>& kinds) {
    return SummariseError(logits, PlainPebbleLogits(tensors_, kinds, tokens)).rms;
  };
  const std::vector<PlainLayerKind> kinds = PebbleLayerKinds();
  const double smallest = error(kinds);
  EXPECT_GT(smallest, 0.0);
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    std::vector<PlainLayerKind> wrong = kinds;
    wrong[layer].window_tokens = kinds[layer].window_tokens == 0 ? 32 : 0;
    EXPECT_GT(error(wrong), 4 * smallest) << "the window of layer " << layer;
    wrong = kinds;
    wrong[layer].rope_theta = kinds[layer].rope_theta == 100.0 ? 10000.0 : 100.0;
    EXPECT_GT(error(wrong), 4 * smallest) << "the rotation of layer " << layer;
  }
  for (const int64_t window : {31, 33}) {
    std::vector<PlainLayerKind> wrong = kinds;
    wrong[0].window_tokens = wrong[2].window_tokens = window;
    EXPECT_GT(error(wrong), 2 * smallest) << "a window of " << window;
  }
}

// The files of another family have w where those of Pebble have 1 + w, in fp32.
TEST_F(ToyFamilyTest, NormsThatLackOneGetItWhenTheyAreLoaded) {
  static const ModelFamily kHollow = [] {
    ModelFamily family = PebbleFamily();
    family.name = "hollow pebble";
    family.architecture = "HollowPebbleForCausalLM";
    family.hugging_face.norms_lack_one = true;
    return family;
  }();
  RegisterModelFamily(kHollow);
  std::vector<TestTensor> hollow = tensors_;
  for (TestTensor& tensor : hollow) {
    if (!tensor.name.ends_with("norm.weight")) continue;
    for (float& value : tensor.values) value -= 1.0f;
  }
  const TempFolder folder;
  WritePebbleCheckpoint(folder);
  std::string config = PebbleConfigJson();
  config.replace(config.find("\"pebble\""), 8, "\"hollow pebble\"");
  config.replace(config.find("PebbleFor"), 9, "HollowPebbleFor");
  folder.Write("config.json", config);
  folder.Write("model.safetensors", SafetensorsBytes(hollow, "F32"));

  const std::vector<TokenId> text = {3, 1, 4, 1, 5, 9, 2, 6};
  std::vector<std::vector<float>> logits;
  for (const std::string& path : {folder_.path(), folder.path()}) {
    auto model = LoadCpuModel(path, {.num_kv_blocks = 4, .max_logits_rows = 128});
    ASSERT_THAT(model, IsOk());
    logits.push_back(SequenceRunner(**model, text).RunInStepsOf(8));
  }
  EXPECT_TRUE(IsSameBits(logits[0], logits[1]));
}

}  // namespace
}  // namespace lockstep::worker
