#include "worker/model/plan/tensor_names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/worker/model/small_config.h"

namespace lockstep::worker {
namespace {

TEST(TensorNamesTest, BuildsNamesOfBothContainers) {
  const ModelFamily& llama = *FindModelFamily("llama");
  const TensorNaming third = {.names = llama.hugging_face, .layer = 3};
  EXPECT_EQ(third.NameOf(&TensorNames::q, "weight"), "model.layers.3.self_attn.q_proj.weight");
  const TensorNaming eleventh = {.names = llama.gguf, .layer = 11};
  EXPECT_EQ(eleventh.NameOf(&TensorNames::down, "bias"), "blk.11.ffn_down.bias");
  const TensorNaming outside = {.names = llama.gguf};
  EXPECT_EQ(outside.NameOf(&TensorNames::final_norm, "weight"), "output_norm.weight");
}

TEST(TensorNamesTest, IgnoresWhatNothingNeeds) {
  const TensorNames& llama = FindModelFamily("llama")->hugging_face;
  EXPECT_TRUE(IsIgnorableTensor(llama, "model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_TRUE(IsIgnorableTensor(llama, "rope_freqs.weight"));
  EXPECT_FALSE(IsIgnorableTensor(llama, "model.layers.0.self_attn.q_proj.weight"));
  EXPECT_FALSE(IsIgnorableTensor(llama, "h.0.attn.bias"));
  const TensorNames& gpt2 = FindModelFamily("gpt2")->hugging_face;
  EXPECT_TRUE(IsIgnorableTensor(gpt2, "h.0.attn.bias"));
  EXPECT_TRUE(IsIgnorableTensor(gpt2, "transformer.h.11.attn.masked_bias"));
  EXPECT_FALSE(IsIgnorableTensor(gpt2, "h.0.attn.c_attn.bias"));
}

TEST(TensorNamesTest, FilesOfGpt2HaveOneTensorForQKAndV) {
  const ModelPlan plan = PlanOf(SmallConfig());
  const Part& qkv = plan.kinds.front().parts[LayerPart::kQkv];
  const TensorNaming llama = {.names = FindModelFamily("llama")->hugging_face, .layer = 0};
  EXPECT_EQ(llama.PiecesOf(qkv).size(), 3u);
  const TensorNaming gpt2 = {.names = FindModelFamily("gpt2")->hugging_face, .layer = 0};
  const std::vector<TensorPiece> pieces = gpt2.PiecesOf(qkv);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].num_outputs, 64);
  EXPECT_EQ(pieces[0].matrix_outputs, (std::vector<int64_t>{32, 16, 16}));
  EXPECT_EQ(gpt2.NameOf(pieces[0].name, "weight"), "transformer.h.0.attn.c_attn.weight");
}

TEST(TensorNamesTest, FilesOfGpt2HaveTheMatricesOfLayersTransposed) {
  const ModelPlan plan = PlanOf(SmallConfig());
  const auto& layer = plan.kinds.front().parts;
  const TensorNames& names = FindModelFamily("gpt2")->hugging_face;
  const TensorNaming of_layer = {.names = names, .layer = 1};
  EXPECT_TRUE(of_layer.IsTransposed(layer[LayerPart::kMlpInput]));
  EXPECT_FALSE(of_layer.IsTransposed(layer[LayerPart::kMlpNorm]));
  const TensorNaming outside = {.names = names};
  EXPECT_FALSE(outside.IsTransposed(plan.parts[ModelPart::kTokenEmbedding]));
  EXPECT_FALSE(outside.IsTransposed(plan.parts[ModelPart::kLmHead])) << "it is the embedding";
  const TensorNaming of_gguf = {.names = FindModelFamily("gpt2")->gguf, .layer = 1};
  EXPECT_FALSE(of_gguf.IsTransposed(layer[LayerPart::kMlpInput]));
}

// A part whose piece has no name in some family would be looked for as ".weight".
TEST(TensorNamesTest, EveryFamilyNamesItsParts) {
  for (const ModelFamily* const family : ModelFamilies()) {
    ModelConfig config = SmallConfig();
    config.norm = family->norm;
    config.mlp = family->mlp;
    config.positions = family->positions;
    config.qk_norm = family->qk_norm;
    const ModelPlan plan = PlanOf(config);
    for (const TensorNames* const names : {&family->hugging_face, &family->gguf}) {
      const char* const container = names == &family->gguf ? "GGUF" : "Hugging Face";
      EXPECT_FALSE(names->layer_prefix.empty()) << container << " file of " << family->name;
      EXPECT_FALSE(names->interleaved_heads && family->qk_norm)
          << family->name << ": the order of the weights of q_norm and k_norm is not implemented";
      std::set<std::string> seen;
      const auto check = [&](const Part& part) {
        if (!part.exists()) return;
        for (const TensorPiece& piece : TensorNaming{.names = *names}.PiecesOf(part)) {
          const std::string stem(names->*piece.name);
          EXPECT_FALSE(stem.empty()) << container << " file of " << family->name
                                     << ": a part has no name, after " << seen.size() << " parts";
          EXPECT_TRUE(seen.insert(stem).second) << family->name << " names two parts " << stem;
        }
      };
      for (const LayerKind& kind : plan.kinds) {
        for (const LayerPart part : EnumValues<LayerPart>()) check(kind.parts[part]);
      }
      for (const ModelPart part : EnumValues<ModelPart>()) check(plan.parts[part]);
    }
  }
}

}  // namespace
}  // namespace lockstep::worker
