#include "tests/worker/model/toy_family.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/model_files/model_config.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/worker/model/checkpoint_builder.h"
#include "tests/worker/model/plain_pebble.h"

namespace lockstep::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A random checkpoint in a temporary folder.
class ToyFamilyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RegisterModelFamily(PebbleFamily()); }

  void SetUp() override {
    folder_.Write("config.json", PebbleConfigJson());
    folder_.Write("model.safetensors", SafetensorsBytes(tensors_, "BF16"));
  }

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

}  // namespace
}  // namespace lockstep::worker
