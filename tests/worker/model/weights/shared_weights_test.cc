// Each rank loads its outputs of every linear part. Together the ranks have what one would have.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/gemm/packed_matrix.h"
#include "tests/common/status_matchers.h"
#include "tests/worker/model/small_config.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/weight_plan.h"
#include "worker/model/weights/weight_source.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

WeightPlan Load(const ModelPlan& model, const WeightSource& source, WeightLayout layout,
                const TensorRank& rank) {
  auto plan = PlanWeights(model, source, {.layout = layout, .rank = rank});
  EXPECT_THAT(plan, IsOk());
  kernels::ThreadPool threads(2);
  EXPECT_THAT(RunLoadTasks(plan->tasks, threads, nullptr), IsOk());
  return *std::move(plan);
}

uint16_t Element(const kernels::WeightMatrix& matrix, WeightLayout layout, int64_t output,
                 int64_t input) {
  if (layout == WeightLayout::kRowMajor) return matrix.data[output * matrix.k + input].bits;
  const int64_t panel = output / kernels::kPanelOutputs * kernels::kPanelOutputs * matrix.k;
  return matrix
      .data[panel + input / 2 * 2 * kernels::kPanelOutputs + output % kernels::kPanelOutputs * 2 +
            input % 2]
      .bits;
}

// Outputs of a part that ranks share evenly.
struct Outputs {
  int64_t begin;
  int64_t count;
};

void ExpectShare(const PartWeights& whole, const PartWeights& share, WeightLayout layout,
                 const TensorRank& rank, const std::vector<Outputs>& runs) {
  ASSERT_EQ(share.matrix.n, rank.Share(whole.matrix.n));
  ASSERT_EQ(share.matrix.k, whole.matrix.k);
  ASSERT_EQ(share.bias == nullptr, whole.bias == nullptr);
  int64_t output = 0;
  for (const Outputs& run : runs) {
    for (int64_t i = 0; i < rank.Share(run.count); ++i, ++output) {
      const int64_t of_whole = run.begin + rank.Begin(run.count) + i;
      for (int64_t input = 0; input < whole.matrix.k; ++input) {
        ASSERT_EQ(Element(share.matrix, layout, output, input),
                  Element(whole.matrix, layout, of_whole, input))
            << "output " << output << ", input " << input;
      }
      if (whole.bias != nullptr) {
        ASSERT_EQ(share.bias[output], whole.bias[of_whole]) << output;
      }
    }
  }
  ASSERT_EQ(output, share.matrix.n);
}

struct Case {
  std::string family;
  bool tied;
  WeightLayout layout;
};

class SharedWeightsTest : public ::testing::TestWithParam<Case> {};

TEST_P(SharedWeightsTest, RanksTogetherHaveWhatOneWouldHave) {
  const Case& test_case = GetParam();
  ModelConfig config = SmallConfig();
  config.tie_word_embeddings = test_case.tied;
  config.attention_qkv_bias = true;
  if (test_case.family == "gpt2") {
    config.num_kv_heads = config.num_heads;
    config.norm = NormKind::kLayer;
    config.mlp = MlpKind::kGeluTanh;
    config.positions = PositionKind::kLearned;
    config.attention_output_bias = config.mlp_bias = true;
  } else {
    config.qk_norm = true;
  }
  const ModelPlan model = PlanOf(config);
  const WeightSource source =
      WeightSource::Random("a shape", *FindModelFamily(test_case.family), model, /*seed=*/3);
  const WeightPlan whole = Load(model, source, test_case.layout, {});
  const AttentionPlan& attention = model.kinds.front().attention;
  const int64_t q = attention.q_size(), kv = attention.kv_size();
  const int64_t intermediate = config.intermediate_size;
  for (int64_t rank_index = 0; rank_index < 2; ++rank_index) {
    const TensorRank rank = {.degree = 2, .rank = rank_index};
    const WeightPlan share = Load(model, source, test_case.layout, rank);
    const auto expect = [&](const PartWeights& of_whole, const PartWeights& of_share,
                            const std::vector<Outputs>& runs) {
      ExpectShare(of_whole, of_share, test_case.layout, rank, runs);
    };
    expect(whole.weights.model[ModelPart::kLmHead], share.weights.model[ModelPart::kLmHead],
           {{0, model.vocab_size}});
    for (size_t layer = 0; layer < whole.weights.layers.size(); ++layer) {
      const LayerWeights& of_whole = whole.weights.layers[layer];
      const LayerWeights& of_share = share.weights.layers[layer];
      const auto expect_part = [&](LayerPart part, const std::vector<Outputs>& runs) {
        SCOPED_TRACE(::testing::Message() << "part " << static_cast<int>(part));
        expect(of_whole[part], of_share[part], runs);
      };
      expect_part(LayerPart::kQkv, {{0, q}, {q, kv}, {q + kv, kv}});
      expect_part(LayerPart::kAttentionOutput, {{0, model.hidden_size}});
      if (config.mlp == MlpKind::kSwiGlu) {
        expect_part(LayerPart::kMlpInput, {{0, intermediate}, {intermediate, intermediate}});
      } else {
        expect_part(LayerPart::kMlpInput, {{0, intermediate}});
      }
      expect_part(LayerPart::kMlpOutput, {{0, model.hidden_size}});
      const float* const norm = of_whole[LayerPart::kMlpNorm].vector;
      EXPECT_TRUE(std::equal(norm, norm + model.hidden_size, of_share[LayerPart::kMlpNorm].vector));
    }
    const BFloat16* const embedding = whole.weights.model[ModelPart::kTokenEmbedding].rows;
    const BFloat16* const own = share.weights.model[ModelPart::kTokenEmbedding].rows;
    for (int64_t i = 0; i < model.vocab_size * model.hidden_size; ++i) {
      ASSERT_EQ(own[i].bits, embedding[i].bits) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SharedWeightsTest,
                         ::testing::Values(Case{"qwen3", false, WeightLayout::kPanels},
                                           Case{"qwen3", true, WeightLayout::kPanels},
                                           Case{"qwen3", false, WeightLayout::kRowMajor},
                                           Case{"qwen3", true, WeightLayout::kRowMajor},
                                           Case{"gpt2", true, WeightLayout::kPanels},
                                           Case{"gpt2", true, WeightLayout::kRowMajor}),
                         [](const auto& info) {
                           return info.param.family + (info.param.tied ? "Tied" : "") +
                                  (info.param.layout == WeightLayout::kPanels ? "Panels"
                                                                              : "RowMajor");
                         });

}  // namespace
}  // namespace lockstep::worker
