#include "kernels/formats/panels/panel_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/formats/panels/panel_gemm.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed_matrix.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/kernels/formats/quantized_samples.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::kQ4_KShape;
using lockstep::testing::kQ6_KShape;
using lockstep::testing::kSampleShapes;
using lockstep::testing::SampleMatrix;
using lockstep::testing::SampleShape;

constexpr int64_t kColumns = 768;  // whole groups and blocks of all samples
constexpr int64_t kRows = 5;

// The parts in bf16, one below the other, and a product with them.
class Converted {
 public:
  explicit Converted(const std::vector<QuantizedMatrix>& parts) {
    std::vector<float> values;
    std::vector<BFloat16> row(kColumns);
    for (const QuantizedMatrix& part : parts) {
      for (int64_t i = 0; i < part.n; ++i) {
        DequantizeRow(part, i, row.data());
        for (const BFloat16 value : row) values.push_back(ToFloat(value));
      }
      n_ += part.n;
    }
    panels_.resize(static_cast<size_t>(PackedElements(n_, kColumns)));
    PackRows(values.data(), 0, n_, kColumns, panels_.data());
    input_ = ToBFloat16s(RandomFloats(kRows * kColumns, 3, Distribution::kOutliers));
    bias_ = RandomFloats(static_cast<size_t>(n_), 4);
  }

  std::vector<float> Multiply(const Stream& stream, const PackedWeights* packed) const {
    std::vector<float> output(static_cast<size_t>(kRows * n_));
    GemmParams params = {.input = input_.data(),
                         .input_stride = kColumns,
                         .weights = {.n = n_, .k = kColumns},
                         .bias = bias_.data(),
                         .output_f32 = output.data(),
                         .output_stride = n_,
                         .num_rows = kRows};
    if (packed != nullptr) {
      params.weights.packed = packed;
    } else {
      params.weights.data = panels_.data();
    }
    EXPECT_THAT(Gemm(stream, params), IsOk());
    return output;
  }

 private:
  int64_t n_ = 0;
  std::vector<BFloat16> panels_, input_;
  std::vector<float> bias_;
};

void ExpectSameProduct(const std::vector<QuantizedMatrix>& parts) {
  const auto packed = PanelWeights::Create(parts);
  ASSERT_THAT(packed, IsOk()) << CodesName(parts[0]);
  const Converted converted(parts);
  ThreadPool threads(2);
  for (const InstructionSet set : AvailableInstructionSets()) {
    const Stream stream = {.threads = &threads, .instruction_set = set};
    EXPECT_TRUE(
        IsSameBits(converted.Multiply(stream, packed->get()), converted.Multiply(stream, nullptr)))
        << InstructionSetName(set) << ", " << (*packed)->storage_name();
  }
}

TEST(PanelWeightsTest, OnePartOrThreeOfOneKind) {
  for (const SampleShape& shape : kSampleShapes) {
    if (!PackPanels(SampleMatrix(shape, 40, kColumns, 1))->matrix.layout.is_fused) {
      EXPECT_EQ(shape.kind, CodeKind::kFp4E2M1);  // has scales that are too small
      continue;
    }
    ExpectSameProduct({SampleMatrix(shape, 40, kColumns, 1)});
    ExpectSameProduct({SampleMatrix(shape, 40, kColumns, 1), SampleMatrix(shape, 9, kColumns, 2),
                       SampleMatrix(shape, 33, kColumns, 3)});
  }
}

TEST(PanelWeightsTest, PartsOfSeveralKinds) {
  const std::vector<QuantizedMatrix> parts = {SampleMatrix(kQ4_KShape, 40, kColumns, 1),
                                              SampleMatrix(kQ4_KShape, 20, kColumns, 2),
                                              SampleMatrix(kQ6_KShape, 20, kColumns, 3)};
  ExpectSameProduct(parts);
  const auto packed = PanelWeights::Create(parts);
  ASSERT_THAT(packed, IsOk());
  EXPECT_EQ((*packed)->storage_name(), "Q4_K+Q6_K");
  // 4.625 and 6.5625 bits, in panels of 32 rows.
  EXPECT_NEAR(static_cast<double>((*packed)->num_bytes()),
              kColumns * (64 * 4.625 + 32 * 6.5625) / 8, 0.03 * kColumns * 96);
}

TEST(PanelWeightsTest, ThePortableSetDoesNotDecodeInRegisters) {
  for (const InstructionSet set : AvailableInstructionSets()) {
    if (set == InstructionSet::kAvx512Bf16) continue;  // depends on the processor
    EXPECT_EQ(DecodesInRegisters({.instruction_set = set}), set != InstructionSet::kPortable)
        << InstructionSetName(set);
  }
}

TEST(PanelWeightsTest, RefusesWhatIsFasterInBf16) {
  const QuantizedMatrix matrix = SampleMatrix({CodeKind::kInt4, 10}, 8, 260, 1);
  EXPECT_THAT(PanelWeights::Create({&matrix, 1}),
              HasError(kInvalid, ::testing::HasSubstr("int4 g10")));
}

TEST(PanelWeightsTest, RefusesGroupsThatAreNotContiguous) {
  QuantizedMatrix matrix = SampleMatrix({CodeKind::kInt4, 128}, 8, 256, 1);
  for (int32_t column = 0; column < 256; ++column) matrix.group_of_column.push_back(column % 2);
  EXPECT_THAT(PanelWeights::Create({&matrix, 1}), HasError(kInvalid, ::testing::_));
}

}  // namespace
}  // namespace lockstep::kernels
