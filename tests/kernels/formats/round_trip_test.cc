#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/bfloat16.h"
#include "kernels/formats/awq/awq.h"
#include "kernels/formats/checkpoint/decode_weight.h"
#include "kernels/formats/compressed_tensors/byte_quantized.h"
#include "kernels/formats/compressed_tensors/pack_quantized.h"
#include "kernels/formats/fp8_block/fp8_block.h"
#include "kernels/formats/gptq/gptq.h"
#include "kernels/formats/mxfp4/mxfp4.h"
#include "kernels/formats/quantize.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/module_files.h"

// What a writer wrote, its decoder reads as the same matrix.
namespace lockstep::kernels {
namespace {

using ::testing::HasSubstr;
using Random = std::mt19937_64;

int64_t Below(Random& random, int64_t bound) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

struct Wanted {
  CodeKind kind;
  int64_t n, k, group_columns;
  bool with_zeros = false;
};

// Scales that F16 holds as well as BF16.
float RandomScale(Random& random) {
  const float magnitude = static_cast<float>(1 + Below(random, 255)) * 0x1p-12f;
  return Below(random, 8) == 0 ? -magnitude : magnitude;
}

QuantizedMatrix RandomMatrix(Random& random, const Wanted& wanted) {
  QuantizedMatrix matrix;
  matrix.kind = wanted.kind;
  matrix.n = wanted.n;
  matrix.k = wanted.k;
  matrix.group_columns = wanted.group_columns;
  const bool is_nibble = wanted.kind == CodeKind::kInt4 || wanted.kind == CodeKind::kFp4E2M1;
  const auto code = [&] {
    if (is_nibble) return static_cast<uint8_t>(Below(random, 16));
    const auto byte = static_cast<uint8_t>(Below(random, 256));
    return wanted.kind == CodeKind::kFp8E4M3 && (byte & 0x7F) == 0x7F ? uint8_t{0} : byte;
  };
  for (int64_t i = 0; i < wanted.n * wanted.k; ++i) matrix.codes.push_back(code());
  for (int64_t i = 0; i < wanted.n * matrix.num_groups(); ++i) {
    matrix.scales.push_back(RandomScale(random));
    if (wanted.with_zeros) matrix.zeros.push_back(code());
  }
  // A decoder drops zero points that are all in the middle.
  if (wanted.with_zeros) matrix.zeros[0] = 3;
  return matrix;
}

void Permute(Random& random, QuantizedMatrix* matrix) {
  for (int64_t column = 0; column < matrix->k; ++column) {
    matrix->group_of_column.push_back(static_cast<int32_t>(column / matrix->group_columns));
  }
  std::shuffle(matrix->group_of_column.begin(), matrix->group_of_column.end(), random);
}

void ExpectSameAfterRoundTrip(const QuantizedMatrix& matrix,
                              const absl::StatusOr<std::vector<EncodedTensor>>& written,
                              const WeightScheme& scheme) {
  ASSERT_THAT(written, IsOk());
  ModuleFiles files = ModuleFiles::FromEncoded(*written);
  const absl::StatusOr<QuantizedMatrix> read = DecodeWeight(files.View(), scheme);
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(*read == matrix);
}

TEST(RoundTripTest, PackQuantized) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const bool four = Below(random, 2) == 0, by_group = Below(random, 2) == 0;
    const int64_t group = 8 * (1 + Below(random, 8));
    const int64_t k = by_group ? group * (1 + Below(random, 4)) : 1 + Below(random, 100);
    QuantizedMatrix matrix = RandomMatrix(random, {.kind = four ? CodeKind::kInt4 : CodeKind::kInt8,
                                                   .n = 1 + Below(random, 40),
                                                   .k = k,
                                                   .group_columns = by_group ? group : k,
                                                   .with_zeros = Below(random, 2) == 0});
    if (by_group && k > group && Below(random, 2) == 0) Permute(random, &matrix);
    const WeightScheme scheme{.format = WeightFormat::kPackQuantized,
                              .bits = four ? 4u : 8u,
                              .symmetric = matrix.zeros.empty(),
                              .extent = by_group ? ScaleExtent::kGroup : ScaleExtent::kChannel,
                              .group_size = by_group ? static_cast<uint32_t>(group) : 0};
    for (const auto dtype :
         {SafetensorsDtype::kBF16, SafetensorsDtype::kF16, SafetensorsDtype::kF32}) {
      ExpectSameAfterRoundTrip(matrix, EncodePackQuantized(matrix, dtype), scheme);
    }
  }
}

TEST(RoundTripTest, Gptq) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    const bool four = Below(random, 2) == 0, minus_one = Below(random, 2) == 0;
    const int64_t group = 16 * (1 + Below(random, 4));
    QuantizedMatrix matrix = RandomMatrix(random, {.kind = four ? CodeKind::kInt4 : CodeKind::kInt8,
                                                   .n = 8 * (1 + Below(random, 6)),
                                                   .k = 8 * (1 + Below(random, 20)),
                                                   .group_columns = group,
                                                   .with_zeros = true});
    matrix.group_columns = group;
    const bool ordered = Below(random, 2) == 0 && matrix.k > group;
    if (ordered) Permute(random, &matrix);
    const WeightScheme scheme{.format = WeightFormat::kGptq,
                              .bits = four ? 4u : 8u,
                              .group_size = static_cast<uint32_t>(group),
                              .act_order = ordered,
                              .zeros_minus_one = minus_one};
    ExpectSameAfterRoundTrip(matrix, EncodeGptq(matrix, SafetensorsDtype::kF16, minus_one), scheme);
  }
}

TEST(RoundTripTest, Awq) {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    const int64_t group = 1 + Below(random, 40);
    const QuantizedMatrix matrix = RandomMatrix(random, {.kind = CodeKind::kInt4,
                                                         .n = 8 * (1 + Below(random, 6)),
                                                         .k = group * (1 + Below(random, 4)),
                                                         .group_columns = group,
                                                         .with_zeros = Below(random, 2) == 0});
    const WeightScheme scheme{.format = WeightFormat::kAwq,
                              .bits = 4,
                              .symmetric = false,
                              .group_size = static_cast<uint32_t>(group)};
    ExpectSameAfterRoundTrip(matrix, EncodeAwq(matrix, SafetensorsDtype::kF16), scheme);
  }
}

TEST(RoundTripTest, BytesOfIntegers) {
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    const int64_t k = 1 + Below(random, 60);
    const QuantizedMatrix matrix = RandomMatrix(random, {.kind = CodeKind::kInt8,
                                                         .n = 1 + Below(random, 20),
                                                         .k = k,
                                                         .group_columns = k,
                                                         .with_zeros = Below(random, 2) == 0});
    const WeightScheme scheme{.format = WeightFormat::kIntQuantized,
                              .bits = 8,
                              .symmetric = matrix.zeros.empty(),
                              .extent = ScaleExtent::kChannel};
    ExpectSameAfterRoundTrip(matrix, EncodeIntQuantized(matrix, SafetensorsDtype::kBF16), scheme);
  }
}

TEST(RoundTripTest, Fp8ByRowAndByBlock) {
  Random random(5);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> values(static_cast<size_t>((1 + Below(random, 50)) * 70));
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
    const auto n = static_cast<int64_t>(values.size()) / 70;
    QuantizeOptions options{.kind = CodeKind::kFp8E4M3, .group_columns = 0};
    const absl::StatusOr<QuantizedMatrix> by_row = QuantizeToNearest(values, n, 70, options);
    ASSERT_THAT(by_row, IsOk());
    ExpectSameAfterRoundTrip(
        *by_row, EncodeFloatQuantized(*by_row, SafetensorsDtype::kF32),
        {.format = WeightFormat::kFloatQuantized, .bits = 8, .extent = ScaleExtent::kChannel});
    options.group_columns = 32;
    options.group_rows = 16;
    const absl::StatusOr<QuantizedMatrix> by_block = QuantizeToNearest(values, n, 70, options);
    ASSERT_THAT(by_block, IsOk());
    ExpectSameAfterRoundTrip(*by_block, EncodeFp8Block(*by_block, SafetensorsDtype::kF32, 16),
                             {.format = WeightFormat::kFp8Block,
                              .bits = 8,
                              .extent = ScaleExtent::kBlock,
                              .block_rows = 16,
                              .block_columns = 32});
  }
}

TEST(RoundTripTest, Mxfp4) {
  Random random(6);
  for (int round = 0; round < 50; ++round) {
    QuantizedMatrix matrix = RandomMatrix(random, {.kind = CodeKind::kFp4E2M1,
                                                   .n = 1 + Below(random, 20),
                                                   .k = 32 * (1 + Below(random, 4)),
                                                   .group_columns = 32});
    for (float& scale : matrix.scales) {
      scale = std::ldexp(1.0f, static_cast<int>(Below(random, 240)) - 127);
    }
    ExpectSameAfterRoundTrip(matrix, EncodeMxfp4Packed(matrix),
                             {.format = WeightFormat::kMxfp4Packed, .bits = 4, .group_size = 32});
  }
}

TEST(RoundTripTest, WritersRefuseWhatTheirLayoutDoesNotHold) {
  Random random(7);
  QuantizedMatrix matrix =
      RandomMatrix(random, {.kind = CodeKind::kInt4, .n = 12, .k = 64, .group_columns = 32});
  EXPECT_THAT(EncodeAwq(matrix, SafetensorsDtype::kF16), HasError(kInvalid, HasSubstr("AWQ")));
  EXPECT_THAT(EncodeGptq(matrix, SafetensorsDtype::kF16, true),
              HasError(kInvalid, HasSubstr("GPTQ")));
  EXPECT_THAT(EncodeIntQuantized(matrix, SafetensorsDtype::kBF16),
              HasError(kInvalid, HasSubstr("int8")));
  EXPECT_THAT(EncodeFloatQuantized(matrix, SafetensorsDtype::kF32),
              HasError(kInvalid, HasSubstr("E4M3")));
  EXPECT_THAT(EncodeMxfp4Packed(matrix), HasError(kInvalid, HasSubstr("E2M1")));
  matrix.scales[5] = 0x1p-30f;  // below the smallest F16
  EXPECT_THAT(EncodePackQuantized(matrix, SafetensorsDtype::kF16),
              HasError(kInvalid, HasSubstr("has no exact value in F16")));
  EXPECT_THAT(EncodePackQuantized(matrix, SafetensorsDtype::kBF16), IsOk());
  QuantizedMatrix fp8 =
      RandomMatrix(random, {.kind = CodeKind::kFp8E4M3, .n = 4, .k = 8, .group_columns = 8});
  fp8.scales = {1, 1, 2, 3};
  EXPECT_THAT(EncodeFp8Block(fp8, SafetensorsDtype::kF32, 2),
              HasError(kInvalid, "row 3 has other scales than its block of 2 rows"));
}

}  // namespace
}  // namespace lockstep::kernels
