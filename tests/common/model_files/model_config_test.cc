#include "common/model_files/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <tuple>

#include "common/model_files/model_family.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig ValidConfig() {
  ModelConfig config;
  config.family = FindModelFamily("llama");
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocab_size = 100;
  config.max_context_tokens = 256;
  return config;
}

using Change = std::function<void(ModelConfig&)>;

void ExpectDifferentFingerprints(std::span<const Change> changes) {
  std::set<uint64_t> fingerprints = {ValidConfig().Fingerprint()};
  for (const Change& change : changes) {
    ModelConfig config = ValidConfig();
    change(config);
    EXPECT_TRUE(fingerprints.insert(config.Fingerprint()).second)
        << "change " << fingerprints.size();
  }
}

TEST(ModelConfigTest, FingerprintDependsOnAllThatAltersLogits) {
  const Change changes[] = {
      [](ModelConfig& c) { c.family = FindModelFamily("qwen3"); },
      [](ModelConfig& c) { c.hidden_size = 65; },
      [](ModelConfig& c) { c.intermediate_size = 65; },
      [](ModelConfig& c) { c.num_layers = 65; },
      [](ModelConfig& c) { c.num_heads = 65; },
      [](ModelConfig& c) { c.num_kv_heads = 65; },
      [](ModelConfig& c) { c.head_dim = 65; },
      [](ModelConfig& c) { c.vocab_size = 65; },
      [](ModelConfig& c) { c.norm_eps = std::nextafter(c.norm_eps, 1.0); },
      [](ModelConfig& c) { c.tie_word_embeddings = true; },
      [](ModelConfig& c) { c.attention_qkv_bias = true; },
      [](ModelConfig& c) { c.attention_output_bias = true; },
      [](ModelConfig& c) { c.mlp_bias = true; },
      [](ModelConfig& c) { c.qk_norm = true; },
      [](ModelConfig& c) { c.norm = NormKind::kLayer; },
      [](ModelConfig& c) { c.mlp = MlpKind::kGeluTanh; },
      [](ModelConfig& c) { c.mlp = MlpKind::kGeluErf; },
      [](ModelConfig& c) { c.positions = PositionKind::kLearned; },
      [](ModelConfig& c) { c.rope.theta = 10001; },
      [](ModelConfig& c) { c.rope.scaling = RopeScalingKind::kLinear; },
      [](ModelConfig& c) { c.rope = {.scaling = RopeScalingKind::kLinear, .factor = 2}; },
      [](ModelConfig& c) { c.rope = {.scaling = RopeScalingKind::kLlama3, .factor = 2}; },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kLlama3, .factor = 2, .low_freq_factor = 2};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kLlama3, .factor = 2, .high_freq_factor = 2};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kLlama3, .factor = 2, .original_max_positions = 2};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kLlama3, .frequency_divisors = {1, 2}};
      },
      [](ModelConfig& c) { c.rope = {.scaling = RopeScalingKind::kYarn, .factor = 2}; },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kYarn, .factor = 2, .yarn_beta_fast = 8};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kYarn, .factor = 2, .yarn_beta_slow = 8};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kYarn, .factor = 2, .yarn_attention_factor = 8};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kYarn, .factor = 2, .yarn_mscale = 8};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kYarn, .factor = 2, .yarn_mscale_all_dim = 8};
      },
      [](ModelConfig& c) {
        c.rope = {.scaling = RopeScalingKind::kYarn, .factor = 2, .yarn_truncate = false};
      }};
  ExpectDifferentFingerprints(changes);
}

TEST(ModelConfigTest, FingerprintDependsOnTheKindsOfLayers) {
  const Change changes[] = {
      [](ModelConfig& c) { c.layer_kinds = {{.window_tokens = 32}}; },
      [](ModelConfig& c) { c.layer_kinds = {{.window_tokens = 33}}; },
      [](ModelConfig& c) { c.layer_kinds = {{.window_tokens = 32, .rope = {.theta = 9}}}; },
      [](ModelConfig& c) {
        c.layer_kinds = {{.window_tokens = 32}, {}};
        c.kind_of_layer = {0, 1};
      },
      [](ModelConfig& c) {
        c.layer_kinds = {{.window_tokens = 32}, {}};
        c.kind_of_layer = {1, 0};
      }};
  ExpectDifferentFingerprints(changes);
}

TEST(ModelConfigTest, FingerprintIgnoresWhatDoesNot) {
  const uint64_t plain = ValidConfig().Fingerprint();
  const Change changes[] = {[](ModelConfig& c) { c.name = "other"; },
                            [](ModelConfig& c) { c.max_context_tokens = 512; },
                            [](ModelConfig& c) { c.eos_token_ids = {5}; },
                            [](ModelConfig& c) { c.bos_token_id = 5; },
                            [](ModelConfig& c) { c.generation_defaults.temperature = 0.5f; },
                            [](ModelConfig& c) { c.rope.factor = 5; }};  // not used without scaling
  for (const Change& change : changes) {
    ModelConfig config = ValidConfig();
    change(config);
    EXPECT_EQ(config.Fingerprint(), plain);
  }
}

using BadChange = std::pair<Change, const char*>;

void ExpectViolations(std::span<const BadChange> cases) {
  for (const auto& [change, expected] : cases) {
    ModelConfig config = ValidConfig();
    change(config);
    EXPECT_THAT(config.Validate(), HasError(kInvalid, HasSubstr(expected)));
  }
}

TEST(ModelConfigTest, ValidateChecksEachBound) {
  EXPECT_THAT(ValidConfig().Validate(), IsOk());
  EXPECT_THAT(ModelConfig().Validate(),
              HasError(kInvalid,
                       AllOf(HasSubstr("hidden size is 0"), HasSubstr("vocabulary size is 0"),
                             HasSubstr("number of KV heads is 0"), HasSubstr("context length is 0"),
                             HasSubstr("the model has no family"))));
  const BadChange cases[] = {
      {[](ModelConfig& c) { c.hidden_size = 1 << 21; },
       "hidden size is 2097152, expected 1 to 1048576"},
      {[](ModelConfig& c) { c.intermediate_size = 1 << 21; }, "intermediate size is 2097152"},
      {[](ModelConfig& c) { c.num_layers = 5000; }, "number of layers is 5000"},
      {[](ModelConfig& c) { c.num_heads = 1 << 20; }, "number of heads is 1048576"},
      {[](ModelConfig& c) { c.head_dim = 1 << 13; }, "head dimension is 8192"},
      {[](ModelConfig& c) { c.vocab_size = 1 << 25; }, "vocabulary size is 33554432"},
      {[](ModelConfig& c) { c.max_context_tokens = 1u << 31; }, "context length is 2147483648"},
      {[](ModelConfig& c) { c.max_context_tokens = 1u << 30; },
       "context length is 1073741824, expected 1 to 16777216"},
      {[](ModelConfig& c) {
         c.max_context_tokens = 1u << 24;
         c.head_dim = 256;
       },
       "context length 16777216 with head dimension 256 needs rotary tables of 17179869184 bytes"},
      {[](ModelConfig& c) { c.norm_eps = std::numeric_limits<double>::quiet_NaN(); },
       "epsilon is nan"},
      {[](ModelConfig& c) { c.rope.theta = std::numeric_limits<double>::infinity(); },
       "theta is inf"},
      {[](ModelConfig& c) {
         c.rope.frequency_divisors = {1};
         c.rope.scaling = RopeScalingKind::kYarn;
       },
       "divisors without llama3"},
      {[](ModelConfig& c) { c.eos_token_ids = {100}; }, "end token id 100"}};
  ExpectViolations(cases);
}

TEST(ModelConfigTest, ValidateChecksTheKindsOfLayers) {
  const BadChange cases[] = {
      {[](ModelConfig& c) { c.layer_kinds.resize(257); }, "there are 257 kinds of layers"},
      {[](ModelConfig& c) { c.kind_of_layer = {0, 0}; }, "layer 0 is of kind 0, but there are 0"},
      {[](ModelConfig& c) {
         c.layer_kinds.resize(2);
         c.kind_of_layer = {0, 2};
       },
       "layer 1 is of kind 2, but there are 2 kinds"},
      {[](ModelConfig& c) {
         c.layer_kinds.resize(1);
         c.kind_of_layer = {0};
       },
       "there are kinds of 1 layers, but 2 layers"},
      {[](ModelConfig& c) { c.layer_kinds = {{}, {.rope = {.theta = 1}}}; },
       "kind 1 of layers: rope theta is 1, expected > 1"},
      {[](ModelConfig& c) {
         c.layer_kinds.resize(3);
         c.max_context_tokens = 1u << 24;
         c.head_dim = 64;
       },
       "needs rotary tables of 12884901888 bytes"}};
  ExpectViolations(cases);
}

constexpr char kTinyConfig[] = R"({"architectures":["LlamaForCausalLM"],"model_type":"llama",
  "hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,
  "vocab_size":100,"max_position_embeddings":256})";

TEST(LoadModelConfigTest, LoadsFoldersAndGgufFiles) {
  const TempFolder folder;
  folder.Write("config.json", kTinyConfig);
  absl::StatusOr<ModelConfig> config = LoadModelConfig(folder.path());
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->num_kv_heads, 4u);

  folder.Write("generation_config.json", R"({"eos_token_id":[3,4]})");
  config = LoadModelConfig(folder.path() + "/");
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->eos_token_ids, ElementsAre(3, 4));
  EXPECT_EQ(config->name, folder.path().substr(folder.path().rfind('/') + 1));

  config = LoadModelConfig(folder.Write("tiny.gguf", TinyLlamaGguf().Build()));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->name, "Tiny Llama");

  config = LoadModelConfig(folder.Write("model", TinyLlamaGguf().Build()));
  ASSERT_THAT(config, IsOk()) << "a volume may give the file any name";
  EXPECT_EQ(config->name, "Tiny Llama");
}

TEST(LoadModelConfigTest, NamesThePathThatDoesNotWork) {
  const TempFolder folder;
  EXPECT_THAT(LoadModelConfig(folder.path()),
              HasError(absl::StatusCode::kNotFound, HasSubstr(folder.path() + "/config.json")));
  EXPECT_THAT(LoadModelConfig(folder.path() + "/no.gguf"),
              HasError(absl::StatusCode::kNotFound, HasSubstr("no.gguf")));
  EXPECT_THAT(
      LoadModelConfig(folder.path() + "/none"),
      HasError(absl::StatusCode::kNotFound, HasSubstr("/none: there is no such file or folder")));
  EXPECT_THAT(LoadModelConfig(folder.Write("model.bin", "x")),
              HasError(kInvalid, AllOf(HasSubstr("model.bin"), HasSubstr("GGUF file"))));
  folder.Write("config.json", kTinyConfig);
  folder.Write("generation_config.json", "");
  EXPECT_THAT(LoadModelConfig(folder.path()), IsOk()) << "an empty file says nothing";
}

TEST(LoadModelConfigTest, LoadsWhatTransformersWrote) {
  const std::tuple<const char*, const ModelFamily*, RopeScalingKind> checkpoints[] = {
      {"tiny-llama", FindModelFamily("llama"), RopeScalingKind::kLlama3},
      {"tiny-llama-yarn", FindModelFamily("llama"), RopeScalingKind::kYarn},
      {"tiny-qwen2", FindModelFamily("qwen2"), RopeScalingKind::kNone},
      {"tiny-qwen2-linear", FindModelFamily("qwen2"), RopeScalingKind::kLinear},
      {"tiny-qwen3", FindModelFamily("qwen3"), RopeScalingKind::kNone},
      {"tiny-qwen3-window", FindModelFamily("qwen3"), RopeScalingKind::kNone}};
  for (const auto& [name, family, scaling] : checkpoints) {
    const absl::StatusOr<ModelConfig> config = LoadModelConfig(std::string("tests/golden/") + name);
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->name, name);
    EXPECT_EQ(config->family, family);
    EXPECT_EQ(config->rope.scaling, scaling);
    EXPECT_FALSE(config->eos_token_ids.empty());
  }
}

TEST(ModelFamilyTest, HasTheNamesOfItsFormats) {
  EXPECT_EQ(FindModelFamily("llama")->architecture, "LlamaForCausalLM");
  EXPECT_EQ(FindModelFamily("qwen2")->architecture, "Qwen2ForCausalLM");
  EXPECT_EQ(FindModelFamily("qwen3")->architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(FindModelFamily("gpt2")->architecture, "GPT2LMHeadModel");
  EXPECT_EQ(FindModelFamily("bert"), nullptr);
}

TEST(IsGgufPathTest, GoesByTheNameOrTheFirstBytes) {
  EXPECT_TRUE(IsGgufPath("a/b.gguf"));
  EXPECT_FALSE(IsGgufPath("a/b.gguf/"));
  const TempFolder folder;
  EXPECT_FALSE(IsGgufPath(folder.path()));
  EXPECT_FALSE(IsGgufPath(folder.path() + "/none"));
  EXPECT_TRUE(IsGgufPath(folder.Write("model", TinyLlamaGguf().Build())));
  EXPECT_TRUE(IsGgufPath(folder.Write("start", "GGUF"))) << "its reader says what is missing";
  EXPECT_FALSE(IsGgufPath(folder.Write("short", "GGU")));
  EXPECT_FALSE(IsGgufPath(folder.Write("other", "PK GGUF")));
}

}  // namespace
}  // namespace lockstep
