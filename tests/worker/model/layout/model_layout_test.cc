#include "worker/model/layout/model_layout.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/worker/model/small_spec.h"

namespace lockstep::worker {
namespace {

TEST(ModelLayoutTest, BuildsNamesOfBothContainers) {
  const ModelFamily& llama = *FindModelFamily("llama");
  EXPECT_EQ(LayerTensorName(llama.hugging_face, 3, llama.hugging_face.q, "weight"),
            "model.layers.3.self_attn.q_proj.weight");
  EXPECT_EQ(LayerTensorName(llama.gguf, 11, llama.gguf.down, "bias"), "blk.11.ffn_down.bias");
  EXPECT_EQ(ModelTensorName(llama.gguf.final_norm, "weight"), "output_norm.weight");
}

TEST(ModelLayoutTest, IgnoresWhatNothingNeeds) {
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

TEST(ModelLayoutTest, AGatedMlpStacksGateAndUp) {
  const ModelLayout layout = MakeModelLayout(SmallSpec(), FindModelFamily("qwen3")->hugging_face);
  const Part& input = layout.layer[LayerPart::kMlpInput];
  EXPECT_EQ(input.num_outputs, 96);
  EXPECT_EQ(input.pieces.size(), 2u);
  EXPECT_EQ(layout.layer[LayerPart::kQkv].num_outputs, 64);
  EXPECT_EQ(layout.layer[LayerPart::kQkv].pieces.size(), 3u);
  EXPECT_FALSE(layout.layer[LayerPart::kQNorm].exists());
  EXPECT_FALSE(layout.model[ModelPart::kPositionEmbedding].exists());
}

TEST(ModelLayoutTest, Gpt2HasOneTensorForQKAndVAndLearnedPositions) {
  ModelSpec spec = SmallSpec();
  spec.norm = NormKind::kLayer;
  spec.mlp = MlpKind::kGeluTanh;
  spec.positions = PositionKind::kLearned;
  const ModelLayout layout = MakeModelLayout(spec, FindModelFamily("gpt2")->hugging_face);
  EXPECT_EQ(layout.layer[LayerPart::kQkv].pieces.size(), 1u);
  EXPECT_EQ(layout.layer[LayerPart::kMlpInput].num_outputs, 48);
  EXPECT_TRUE(layout.layer[LayerPart::kMlpNorm].has_bias);
  EXPECT_EQ(layout.model[ModelPart::kPositionEmbedding].num_outputs, 64);
  EXPECT_TRUE(layout.layer[LayerPart::kMlpInput].transposed);
  EXPECT_FALSE(layout.layer[LayerPart::kMlpNorm].transposed);
  EXPECT_FALSE(layout.model[ModelPart::kTokenEmbedding].transposed);
  EXPECT_FALSE(layout.model[ModelPart::kLmHead].transposed) << "it is the embedding";
}

// A part whose piece has no name in some family would be looked for as ".weight".
TEST(ModelLayoutTest, EveryFamilyNamesItsParts) {
  for (const ModelFamily* const family : ModelFamilies()) {
    ModelSpec spec = SmallSpec();
    spec.norm = family->norm;
    spec.mlp = family->mlp;
    spec.positions = family->positions;
    spec.qk_norm = family->qk_norm;
    for (const TensorNames* const names : {&family->hugging_face, &family->gguf}) {
      const char* const container = names == &family->gguf ? "GGUF" : "Hugging Face";
      EXPECT_FALSE(names->layer_prefix.empty()) << container << " file of " << family->name;
      EXPECT_FALSE(names->interleaved_heads && family->qk_norm)
          << family->name << ": the order of the weights of q_norm and k_norm is not implemented";
      const ModelLayout layout = MakeModelLayout(spec, *names);
      std::set<std::string> seen;
      const auto check = [&](const Part& part) {
        for (const TensorPiece& piece : part.pieces) {
          const std::string stem(names->*piece.name);
          EXPECT_FALSE(stem.empty()) << container << " file of " << family->name
                                     << ": a part has no name, after " << seen.size() << " parts";
          EXPECT_TRUE(seen.insert(stem).second) << family->name << " names two parts " << stem;
        }
      };
      for (const LayerPart part : EnumValues<LayerPart>()) check(layout.layer[part]);
      for (const ModelPart part : EnumValues<ModelPart>()) check(layout.model[part]);
    }
  }
}

}  // namespace
}  // namespace lockstep::worker
