#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<ModelConfig> Read(const GgufBuilder& builder) {
  const std::string bytes = builder.Build();
  const absl::StatusOr<GgufFile> file = GgufFile::Parse(AsBytes(bytes), "folder/tiny.gguf");
  if (!file.ok()) return file.status();
  return ModelConfigFromGguf(*file);
}

GgufBuilder MinimalGguf(std::string_view architecture) {
  const std::string prefix = std::string(architecture) + ".";
  GgufBuilder builder;
  builder.String("general.architecture", architecture)
      .Uint32(prefix + "context_length", 128)
      .Uint32(prefix + "embedding_length", 16)
      .Uint32(prefix + "block_count", 2)
      .Uint32(prefix + "feed_forward_length", 48)
      .Uint32(prefix + "attention.head_count", 4)
      .Float32(prefix + "attention.layer_norm_rms_epsilon", 1e-6f)
      .Uint32(prefix + "vocab_size", 100);
  return builder;
}

TEST(ModelConfigGgufTest, ReadsALlama) {
  const absl::StatusOr<ModelConfig> config = Read(TinyLlamaGguf());
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->family, FindModelFamily("llama"));
  EXPECT_EQ(config->name, "Tiny Llama");
  EXPECT_EQ(config->max_context_tokens, 128u);
  EXPECT_EQ(config->hidden_size, 16u);
  EXPECT_EQ(config->num_layers, 2u);
  EXPECT_EQ(config->intermediate_size, 48u);
  EXPECT_EQ(config->num_heads, 4u);
  EXPECT_EQ(config->num_kv_heads, 2u);
  EXPECT_EQ(config->head_dim, 4u);
  EXPECT_EQ(config->norm_eps, static_cast<double>(1e-5f));
  EXPECT_EQ(config->rope.theta, 50000.0);
  EXPECT_EQ(config->vocab_size, 5u) << "the number of tokens";
  EXPECT_EQ(config->bos_token_id, 1u);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(0, 3))
      << "4 has an end token's text, but is no control token";
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_FALSE(config->attention_qkv_bias);
}

TEST(ModelConfigGgufTest, ReadsQwen2AndQwen3) {
  const absl::StatusOr<ModelConfig> qwen2 = Read(MinimalGguf("qwen2"));
  ASSERT_THAT(qwen2, IsOk());
  EXPECT_EQ(qwen2->family, FindModelFamily("qwen2"));
  EXPECT_TRUE(qwen2->attention_qkv_bias);
  EXPECT_FALSE(qwen2->qk_norm);
  EXPECT_EQ(qwen2->num_kv_heads, 4u);
  EXPECT_EQ(qwen2->name, "tiny.gguf");
  EXPECT_THAT(qwen2->eos_token_ids, IsEmpty());
  EXPECT_EQ(qwen2->rope.theta, 10000.0);

  const absl::StatusOr<ModelConfig> qwen3 = Read(MinimalGguf("qwen3")
                                                     .Uint32("qwen3.attention.key_length", 32)
                                                     .Uint32("qwen3.attention.value_length", 32));
  ASSERT_THAT(qwen3, IsOk());
  EXPECT_EQ(qwen3->head_dim, 32u);
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_FALSE(qwen3->attention_qkv_bias);
}

TEST(ModelConfigGgufTest, TensorsTellOfBiasesAndAnUntiedHead) {
  const std::string row(64, '\0');
  const absl::StatusOr<ModelConfig> config =
      Read(TinyLlamaGguf()
               .Tensor("output.weight", GgmlType::kF32, {16}, row)
               .Tensor("blk.0.attn_q.bias", GgmlType::kF32, {16}, row)
               .Tensor("blk.0.attn_output.bias", GgmlType::kF32, {16}, row)
               .Tensor("blk.0.ffn_gate.bias", GgmlType::kF32, {16}, row));
  ASSERT_THAT(config, IsOk());
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_TRUE(config->attention_qkv_bias);
  EXPECT_TRUE(config->attention_output_bias);
  EXPECT_TRUE(config->mlp_bias);
}

TEST(ModelConfigGgufTest, ReadsRopeScaling) {
  const absl::StatusOr<ModelConfig> linear = Read(TinyLlamaGguf()
                                                      .String("llama.rope.scaling.type", "linear")
                                                      .Float32("llama.rope.scaling.factor", 4.0f));
  ASSERT_THAT(linear, IsOk());
  EXPECT_EQ(linear->rope.scaling, RopeScalingKind::kLinear);
  EXPECT_EQ(linear->rope.factor, 4.0);

  const absl::StatusOr<ModelConfig> untyped =
      Read(TinyLlamaGguf().Float32("llama.rope.scaling.factor", 4.0f));
  ASSERT_THAT(untyped, IsOk());
  EXPECT_EQ(untyped->rope.scaling, RopeScalingKind::kLinear);

  const absl::StatusOr<ModelConfig> yarn =
      Read(TinyLlamaGguf()
               .String("llama.rope.scaling.type", "yarn")
               .Float32("llama.rope.scaling.factor", 2.0f)
               .Float32("llama.rope.scaling.yarn_beta_fast", 16.0f)
               .Bool("llama.rope.scaling.finetuned", true)
               .Uint32("llama.rope.scaling.original_context_length", 64));
  ASSERT_THAT(yarn, IsOk());
  EXPECT_EQ(yarn->rope.scaling, RopeScalingKind::kYarn);
  EXPECT_EQ(yarn->rope.original_max_positions, 64u);
  EXPECT_EQ(yarn->rope.yarn_beta_fast, 16.0);
  EXPECT_EQ(yarn->rope.yarn_beta_slow, 1.0);

  const absl::StatusOr<ModelConfig> none =
      Read(TinyLlamaGguf().String("llama.rope.scaling.type", "none"));
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ(none->Fingerprint(), Read(TinyLlamaGguf())->Fingerprint());
}

TEST(ModelConfigGgufTest, TakesLlama3ScalingFromItsTensor) {
  const absl::StatusOr<ModelConfig> config =
      Read(TinyLlamaGguf().Tensor("rope_freqs.weight", GgmlType::kF32, {2}, Floats({1.0f, 8.0f})));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->rope.scaling, RopeScalingKind::kLlama3);
  EXPECT_THAT(config->rope.frequency_divisors, ElementsAre(1.0f, 8.0f));
  EXPECT_NE(config->Fingerprint(), Read(TinyLlamaGguf())->Fingerprint());
}

TEST(ModelConfigGgufTest, ReadsSamplingDefaultsAndExtraEndIds) {
  const absl::StatusOr<ModelConfig> config =
      Read(TinyLlamaGguf()
               .Float32("general.sampling.temp", 0.5f)
               .Float32("general.sampling.top_p", 0.75f)
               .Int32("general.sampling.top_k", 20)
               .Float32("general.sampling.min_p", 0.125f)
               .Float32("general.sampling.penalty_repeat", 1.25f)
               .Uint32("tokenizer.ggml.eot_token_id", 4)
               .Uint32("tokenizer.ggml.eom_token_id", 2));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->generation_defaults.temperature, 0.5f);
  EXPECT_EQ(config->generation_defaults.top_p, 0.75f);
  EXPECT_EQ(config->generation_defaults.top_k, 20u);
  EXPECT_EQ(config->generation_defaults.min_p, 0.125f);
  EXPECT_EQ(config->generation_defaults.repetition_penalty, 1.25f);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(0, 2, 3, 4));
}

TEST(ModelConfigGgufTest, AcceptsWhatChangesNothing) {
  const absl::StatusOr<ModelConfig> config = Read(TinyLlamaGguf()
                                                      .String("general.type", "model")
                                                      .Uint32("llama.expert_count", 0)
                                                      .Uint32("llama.attention.value_length", 4)
                                                      .Uint32("llama.attention.sliding_window", 128)
                                                      .Bool("llama.attention.causal", true)
                                                      .Float32("llama.logit_scale", 1.0f)
                                                      .Uint32("split.count", 1)
                                                      .Uint32("quantize.imatrix.entries_count", 5));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->Fingerprint(), Read(TinyLlamaGguf())->Fingerprint());
}

TEST(ModelConfigGgufTest, RefusesAFamilyWhoseLayersHaveWindows) {
  static constexpr ModelFamily kFamily = {.name = "windows",
                                          .architecture = "WindowsForCausalLM",
                                          .windows = {.layers = WindowLayers::kPattern}};
  RegisterModelFamily(kFamily);
  EXPECT_THAT(Read(MinimalGguf("windows")),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr("general.architecture is \"windows\", whose windows")));
}

TEST(ModelConfigGgufTest, RefusesWhatIsMissingUnknownOrContradictory) {
  const std::pair<GgufBuilder, const char*> cases[] = {
      {GgufBuilder(), "general.architecture is missing"},
      {GgufBuilder().Uint32("general.architecture", 1),
       "general.architecture is of kind unsigned integer"},
      {MinimalGguf("gemma"), "general.architecture is \"gemma\", expected llama, "},
      {GgufBuilder().String("general.architecture", "llama"), "llama.context_length is missing"},
      {TinyLlamaGguf().String("general.type", "adapter"), "general.type is \"adapter\""},
      {TinyLlamaGguf().Uint32("split.count", 3), "split.count is 3"},
      {TinyLlamaGguf().Uint32("llama.attention.key_length", 8),
       "llama.rope.dimension_count is 4, expected the head dimension, 8"},
      {TinyLlamaGguf().Uint32("llama.attention.value_length", 8),
       "llama.attention.value_length is 8"},
      {TinyLlamaGguf().Uint32("llama.attention.key_length", 0), "llama.rope.dimension_count is 4"},
      {TinyLlamaGguf().Uint32("llama.expert_count", 8),
       "llama.expert_count is 8, expected 0 or nothing"},
      {TinyLlamaGguf().Uint32("llama.attention.sliding_window", 32),
       "llama.attention.sliding_window is 32"},
      {TinyLlamaGguf().Float32("llama.logit_scale", 0.5f), "llama.logit_scale is 0.5, expected 1"},
      {TinyLlamaGguf().Bool("llama.attention.causal", false), "llama.attention.causal is false"},
      {TinyLlamaGguf().Uint32("llama.attention.q_lora_rank", 1),
       "llama.attention.q_lora_rank would alter the result"},
      {TinyLlamaGguf().Uint32("llama.ssm.state_size", 1),
       "llama.ssm.state_size would alter the result"},
      {TinyLlamaGguf().String("llama.rope.scaling.type", "longrope"),
       "is \"longrope\", expected none, linear or yarn"},
      {TinyLlamaGguf().Float32("llama.rope.scaling.factor", 0.5f), "rope factor is 0.5"},
      {TinyLlamaGguf()
           .String("llama.rope.scaling.type", "yarn")
           .Float32("llama.rope.scaling.attn_factor", 2.0f),
       "attn_factor is 2"},
      {TinyLlamaGguf().Float32("llama.rope.scaling.yarn_log_multiplier", 0.1f),
       "yarn_log_multiplier would alter the result"},
      {TinyLlamaGguf().Tensor("rope_freqs.weight", GgmlType::kF32, {1}, Floats({1})),
       "there are 1 frequency divisors, expected 2"},
      {TinyLlamaGguf().Tensor("rope_freqs.weight", GgmlType::kF32, {2}, Floats({1, 0})),
       "a frequency divisor is 0"},
      {TinyLlamaGguf().Tensor("rope_freqs.weight", GgmlType::kF16, {2}, "1234"),
       "rope_freqs.weight has type F16"},
      {TinyLlamaGguf().Tensor("rope_factors_long.weight", GgmlType::kF32, {1}, Floats({1})),
       "longrope scaling is not supported"},
      {TinyLlamaGguf().Uint32("llama.vocab_size", 3),
       "llama.vocab_size is 3, expected at least the number of tokens, 5"}};
  for (const auto& [builder, expected] : cases) {
    const absl::Status status = Read(builder).status();
    EXPECT_FALSE(status.ok()) << expected;
    EXPECT_THAT(Message(status), AllOf(HasSubstr("tiny.gguf"), HasSubstr(expected)));
  }
}

TEST(ModelConfigGgufTest, KeysThatNoModelComputesWithCostOneWarning) {
  const absl::StatusOr<ModelConfig> config = Read(TinyLlamaGguf()
                                                      .Uint32("llama.brand_new", 1)
                                                      .String("llama.trained_by", "somebody")
                                                      .Uint32("gemma.not_of_this_model", 1));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->warnings,
              ElementsAre(AllOf(HasSubstr("tiny.gguf"), HasSubstr("llama.brand_new"),
                                HasSubstr("llama.trained_by"), Not(HasSubstr("gemma")))));
  EXPECT_EQ(config->Fingerprint(), Read(TinyLlamaGguf())->Fingerprint());
}

TEST(ModelConfigGgufTest, NoDefaultAndNoEndStopsTheProgram) {
  const std::pair<GgufBuilder, const char*> cases[] = {
      {TinyLlamaGguf().Uint32("tokenizer.ggml.eot_token_id", 5),
       "end token id 5 is not below the vocabulary size 5"},
      {TinyLlamaGguf().Float32("general.sampling.mirostat", 2.0f),
       "general.sampling.mirostat is not implemented"},
      {TinyLlamaGguf().Float32("general.sampling.temp", -2.0f),
       "general.sampling.temp is -2, expected 0 or a number in [0.001, 100]"},
      {TinyLlamaGguf().Int32("general.sampling.top_k", -7), "general.sampling.top_k is -7"},
      {TinyLlamaGguf().String("general.sampling.top_p", "x"), "general.sampling.top_p is of kind"},
  };
  for (const auto& [builder, expected] : cases) {
    const absl::StatusOr<ModelConfig> config = Read(builder);
    ASSERT_THAT(config, IsOk()) << expected;
    EXPECT_EQ(config->generation_defaults, SamplingNumbers()) << expected;
    EXPECT_THAT(config->warnings, ElementsAre(AllOf(HasSubstr("tiny.gguf"), HasSubstr(expected))));
  }
  const absl::StatusOr<ModelConfig> allowed = Read(
      TinyLlamaGguf().Float32("general.sampling.temp", 1e-6f).Int32("general.sampling.top_k", -1));
  ASSERT_THAT(allowed, IsOk());
  EXPECT_EQ(allowed->generation_defaults, SamplingNumbers{.temperature = 1e-3f});
  EXPECT_THAT(allowed->warnings, IsEmpty());
}

TEST(ModelConfigGgufTest, ScalingExtendsTheContext) {
  const auto context = [](const GgufBuilder& builder) { return Read(builder)->max_context_tokens; };
  const uint32_t plain = context(TinyLlamaGguf());
  EXPECT_EQ(context(TinyLlamaGguf()
                        .String("llama.rope.scaling.type", "yarn")
                        .Float32("llama.rope.scaling.factor", 4.0f)
                        .Uint32("llama.rope.scaling.original_context_length", plain)),
            4 * plain);
  EXPECT_EQ(context(TinyLlamaGguf()
                        .String("llama.rope.scaling.type", "yarn")
                        .Float32("llama.rope.scaling.factor", 4.0f)
                        .Uint32("llama.rope.scaling.original_context_length", plain / 4)),
            plain);
  EXPECT_EQ(context(TinyLlamaGguf().Float32("llama.rope.scaling.factor", 2.0f)), 2 * plain);
}

TEST(ModelConfigGgufTest, EveryRequiredKeyIsRequired) {
  const std::vector<std::string> keys = {
      "context_length",      "embedding_length",     "block_count",
      "feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon"};
  for (const std::string& absent : keys) {
    GgufBuilder builder;
    builder.String("general.architecture", "llama").Uint32("llama.vocab_size", 10);
    for (const std::string& key : keys) {
      if (key != absent) builder.Uint32("llama." + key, 8);
    }
    EXPECT_THAT(Read(builder), HasError(kInvalid, HasSubstr("llama." + absent + " is missing")))
        << absent;
  }
}

TEST(ModelConfigGgufTest, AnUnprintableNameGivesWayToTheFiles) {
  EXPECT_EQ(Read(MinimalGguf("llama").String("general.name", "a\nb"))->name, "tiny.gguf");
  EXPECT_EQ(Read(MinimalGguf("llama").String("general.name", "\xff"))->name, "tiny.gguf");
}

}  // namespace
}  // namespace lockstep
