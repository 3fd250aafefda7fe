#include "worker/cpu/load_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/kv_cache/paged_kv.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/checkpoint_builder.h"
#include "tests/worker/model/sequence_runner.h"

namespace lockstep::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

ModelOptions Options() { return {.num_kv_blocks = 4, .max_step_tokens = 64}; }

class LoadModelTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ForwardModel>> LoadFolder(const TestCheckpoint& checkpoint,
                                                           std::string_view dtype = "BF16") {
    folder_.Write("config.json", ConfigJson(checkpoint));
    folder_.Write("model.safetensors", SafetensorsBytes(checkpoint.tensors, dtype));
    return LoadCpuModel(folder_.path(), Options());
  }

  absl::StatusOr<std::unique_ptr<ForwardModel>> LoadGguf(const TestCheckpoint& checkpoint) {
    return LoadCpuModel(folder_.Write("model.gguf", GgufBytes(checkpoint)), Options());
  }

  static std::vector<float> Logits(ForwardModel& model) {
    const std::vector<TokenId> tokens = {3, 14, 15, 9,  26, 5,  35, 8, 9,
                                         7, 9,  3,  23, 8,  46, 26, 4, 3};
    return SequenceRunner(model, tokens).RunInStepsOf(18);
  }

  TempFolder folder_;
};

TEST_F(LoadModelTest, EveryFormatOfTheSameWeightsGivesTheSameLogits) {
  for (const ModelFamily* const family : {FindModelFamily("llama"), FindModelFamily("qwen2")}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(::testing::Message() << family->name << (tied ? ", tied" : ""));
      const TestCheckpoint checkpoint = MakeCheckpoint(family, tied);
      auto bf16 = LoadFolder(checkpoint);
      ASSERT_THAT(bf16, IsOk());
      const std::vector<float> expected = Logits(**bf16);
      ASSERT_TRUE(IsFinite(expected));
      for (const std::string_view dtype : {"F32", "F16"}) {
        auto model = LoadFolder(checkpoint, dtype);
        ASSERT_THAT(model, IsOk());
        EXPECT_TRUE(IsSameBits(Logits(**model), expected)) << dtype;
      }
      auto gguf = LoadGguf(checkpoint);
      ASSERT_THAT(gguf, IsOk());
      EXPECT_TRUE(IsSameBits(Logits(**gguf), expected)) << "GGUF";
    }
  }
}

TEST_F(LoadModelTest, ListsMissingUnexpectedAndMisshapenTensors) {
  TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), false);
  checkpoint.Remove("model.layers.1.mlp.up_proj.weight");
  checkpoint.Tensor("model.norm.weight").shape = {12, 2};
  checkpoint.tensors.push_back({"model.layers.2.extra.weight", {1}, {0.0f}});
  EXPECT_THAT(
      LoadFolder(checkpoint),
      HasError(kInvalid,
               AllOf(HasSubstr(folder_.path()),
                     HasSubstr("model.layers.1.mlp.up_proj.weight of shape [40, 24] is missing"),
                     HasSubstr("model.norm.weight has shape [12, 2], expected [24]"),
                     HasSubstr("model.layers.2.extra.weight is not part of the model"))));
}

TEST_F(LoadModelTest, ListsOnlyTheFirstOfManyProblems) {
  TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), false);
  checkpoint.tensors.clear();
  EXPECT_THAT(LoadFolder(checkpoint), HasError(kInvalid, HasSubstr("; and 13 more")));
}

// A misspelt name is missing under the right one, and unknown under the wrong one.
TEST_F(LoadModelTest, ListsUnknownNamesBesideMissingOnes) {
  TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), false);
  for (auto& tensor : checkpoint.tensors) tensor.name = "my." + tensor.name;
  EXPECT_THAT(LoadFolder(checkpoint),
              HasError(kInvalid, AllOf(HasSubstr("tensor model.embed_tokens.weight of shape"),
                                       HasSubstr("tensor my.lm_head.weight is not part"))));
}

TEST_F(LoadModelTest, NamesTheTypeThatItCannotRead) {
  const TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), false);
  EXPECT_THAT(LoadFolder(checkpoint, "F8_E4M3"),
              HasError(kInvalid, HasSubstr("has type F8_E4M3, which is not supported")));
}

// The prompt of the self-check does not have every token of a large vocabulary.
TEST_F(LoadModelTest, NamesAWeightThatIsNotFinite) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    std::string tensor;
    size_t element;
    std::string found;
    std::string gguf_found;
  };
  for (const auto& [tensor, element, found, gguf_found] :
       {Case{"model.embed_tokens.weight", 33 * 24 + 7,
             "tensor model.embed_tokens.weight: element [33, 7] is nan",
             "tensor token_embd.weight: element [33, 7] is nan"},
        Case{"model.layers.1.mlp.down_proj.weight", 23 * 40 + 39,
             "tensor model.layers.1.mlp.down_proj.weight: element [23, 39] is nan",
             "tensor blk.1.ffn_down.weight: element [23, 39] is nan"},
        Case{"model.norm.weight", 5, "tensor model.norm.weight: element [5] is nan",
             "tensor output_norm.weight: element [5] is nan"}}) {
    TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), true);
    checkpoint.Tensor(tensor).values[element] = kNaN;
    for (const std::string_view dtype : {"BF16", "F32"}) {
      EXPECT_THAT(LoadFolder(checkpoint, dtype),
                  HasError(kInvalid, AllOf(HasSubstr(folder_.path()), HasSubstr(found))))
          << dtype;
    }
    EXPECT_THAT(LoadGguf(checkpoint), HasError(kInvalid, HasSubstr(gguf_found)));
  }
}

TEST_F(LoadModelTest, IgnoresSavedRotaryBuffersAndTheCopyOfTiedEmbeddings) {
  TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), true);
  auto plain = LoadFolder(checkpoint);
  ASSERT_THAT(plain, IsOk());
  checkpoint.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {1}, {0.5f}});
  TestTensor copy = checkpoint.Tensor("model.embed_tokens.weight");
  copy.name = "lm_head.weight";
  checkpoint.tensors.push_back(copy);
  auto model = LoadFolder(checkpoint);
  ASSERT_THAT(model, IsOk());
  EXPECT_TRUE(IsSameBits(Logits(**model), Logits(**plain)));
}

TEST_F(LoadModelTest, QwenWithoutItsBiasesIsIncomplete) {
  TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("qwen2"), false);
  checkpoint.Remove("model.layers.0.self_attn.k_proj.bias");
  EXPECT_THAT(LoadFolder(checkpoint),
              HasError(kInvalid, HasSubstr("model.layers.0.self_attn.k_proj.bias")));
  EXPECT_THAT(LoadGguf(checkpoint), HasError(kInvalid, HasSubstr("blk.0.attn_k.bias")));
}

TEST_F(LoadModelTest, RefusesOptionsItCannotServe) {
  const auto status_with = [&](auto change) {
    ModelOptions options = Options();
    change(options);
    return LoadCpuModel(folder_.path(), options);
  };
  EXPECT_THAT(status_with([](auto& options) { options.num_kv_blocks = 1; }),
              HasError(kInvalid, HasSubstr("1 KV blocks")));
  EXPECT_THAT(status_with([](auto& options) { options.max_step_tokens = 0; }),
              HasError(kInvalid, HasSubstr("max_step_tokens is 0")));
  EXPECT_THAT(status_with([](auto& options) { options.max_logits_rows = 0; }),
              HasError(kInvalid, HasSubstr("max_logits_rows is 0")));
  EXPECT_THAT(LoadCpuModel(folder_.path() + "/nothing", Options()), Not(IsOk()));
}

TEST_F(LoadModelTest, InfoDescribesModelAndMachine) {
  auto model = LoadFolder(MakeCheckpoint(FindModelFamily("qwen2"), false));
  ASSERT_THAT(model, IsOk());
  const ForwardModelInfo& info = (*model)->info();
  EXPECT_EQ(info.vocab_size, 50u);
  EXPECT_EQ(info.max_context_tokens, 64u);
  EXPECT_EQ(info.max_step_tokens, 64u);
  ASSERT_EQ(info.kv_groups.size(), 1u);
  EXPECT_EQ(info.kv_groups[0].num_blocks, 4u);
  EXPECT_EQ(info.block_size_tokens, 16u);
  EXPECT_EQ(info.weights_dtype, "bf16");
  EXPECT_EQ(info.kv_groups[0].dtype, "bf16");
  EXPECT_EQ(info.memory.kv_cache_bytes,
            2u * 4 * kernels::KvBlockElements(/*num_kv_heads=*/2, /*head_dim=*/6) * 2);
  EXPECT_GT(info.memory.weights_bytes, 2u * 2 * 50 * 24);  // embedding and logits alone
  EXPECT_GT(info.memory.workspace_bytes, 0u);
  EXPECT_EQ(info.device, "cpu-" + std::string(InstructionSetName(kernels::BestInstructionSet())));
}

TEST_F(LoadModelTest, AnFp8CacheTakesAByteForAnElementAndTwoForTheScalesOfAHead) {
  ASSERT_THAT(LoadFolder(MakeCheckpoint(FindModelFamily("llama"), false)), IsOk());
  ModelOptions options = Options();
  options.kv_type = kernels::KvType::kFp8;
  const auto model = LoadCpuModel(folder_.path(), options);
  ASSERT_THAT(model, IsOk());
  const ForwardModelInfo& info = (*model)->info();
  EXPECT_EQ(info.kv_groups[0].dtype, "fp8_e4m3");
  // 2 layers, 4 blocks, 2 KV heads, 16 tokens: 6 elements of a key, 6 padded to 16 of a value.
  EXPECT_EQ(info.memory.kv_cache_bytes, 2u * 4 * 2 * 16 * (6 + 16 + 2));
}

TEST_F(LoadModelTest, AnnouncesTheTokenizerThatLiesBesideTheWeights) {
  const TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), false);
  const auto load = [&]() -> absl::StatusOr<ForwardModelInfo> {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto model, LoadFolder(checkpoint));
    return model->info();
  };
  const auto without = load();
  ASSERT_THAT(without, IsOk());
  EXPECT_EQ(without->tokenizer_fingerprint, 0u);
  folder_.Write("tokenizer.json", R"({"model": {"vocab": {"a": 0, "b": 1}, "merges": []}})");
  const auto with = load();
  ASSERT_THAT(with, IsOk());
  EXPECT_NE(with->tokenizer_fingerprint, 0u);
  EXPECT_EQ(with->numerics_id, without->numerics_id) << "it changes no bit of a logit";
  folder_.Write("tokenizer.json", R"({"model": {"vocab": {"a": 1, "b": 0}, "merges": []}})");
  const auto other = load();
  ASSERT_THAT(other, IsOk());
  EXPECT_NE(other->tokenizer_fingerprint, with->tokenizer_fingerprint);
  folder_.Write("tokenizer.json", "{");
  EXPECT_THAT(load(), HasError(kInvalid, HasSubstr("tokenizer.json")));
}

TEST_F(LoadModelTest, NumericsIdFollowsWhatChangesBitsAndNothingElse) {
  TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), false);
  const auto info_with = [&](auto change) {
    ModelOptions options = Options();
    change(options);
    auto model = LoadCpuModel(folder_.path(), options);
    EXPECT_THAT(model, IsOk());
    return (*model)->info();
  };
  ASSERT_THAT(LoadFolder(checkpoint), IsOk());
  const ForwardModelInfo info = info_with([](auto&) {});
  EXPECT_EQ(info_with([](auto& options) { options.num_threads = 3; }).numerics_id,
            info.numerics_id);
  EXPECT_EQ(info_with([](auto& options) { options.num_kv_blocks = 9; }).numerics_id,
            info.numerics_id);
  EXPECT_EQ(info_with([](auto& options) { options.max_step_tokens = 2; }).model_fingerprint,
            info.model_fingerprint);
  const ForwardModelInfo fp8 =
      info_with([](auto& options) { options.kv_type = kernels::KvType::kFp8; });
  EXPECT_NE(fp8.numerics_id, info.numerics_id);
  EXPECT_EQ(fp8.weights_fingerprint, info.weights_fingerprint);
  EXPECT_EQ(fp8.model_fingerprint, info.model_fingerprint);
  if (kernels::BestInstructionSet() != kernels::InstructionSet::kPortable) {
    EXPECT_NE(info_with([](auto& options) {
                options.instruction_set = kernels::InstructionSet::kPortable;
              }).numerics_id,
              info.numerics_id);
  }
  checkpoint.Tensor("model.layers.1.mlp.down_proj.weight").values[5] += 1.0f / 64.0f;
  auto changed = LoadFolder(checkpoint);
  ASSERT_THAT(changed, IsOk());
  EXPECT_NE((*changed)->info().weights_fingerprint, info.weights_fingerprint);
  EXPECT_NE((*changed)->info().numerics_id, info.numerics_id);
  EXPECT_EQ((*changed)->info().model_fingerprint, info.model_fingerprint);
}

TEST_F(LoadModelTest, ReportsProgressToTheEnd) {
  const TestCheckpoint checkpoint = MakeCheckpoint(FindModelFamily("llama"), false);
  ASSERT_THAT(LoadFolder(checkpoint), IsOk());
  std::vector<std::string> stages;
  double last = 0.0;
  ModelOptions options = Options();
  options.progress = [&](std::string_view stage, double fraction) {
    if (stages.empty() || stages.back() != stage) {
      stages.emplace_back(stage);
      last = 0.0;
    }
    EXPECT_GE(fraction, last);
    EXPECT_LE(fraction, 1.0);
    last = fraction;
  };
  ASSERT_THAT(LoadCpuModel(folder_.path(), options), IsOk());
  EXPECT_EQ(stages, (std::vector<std::string>{"weights", "self-check"}));
  EXPECT_EQ(last, 1.0);
}

}  // namespace
}  // namespace lockstep::worker
