#include "worker/model/weights/random_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/hash.h"
#include "kernels/core/bfloat16.h"
#include "kernels/quant/float16.h"

namespace lockstep::worker {
namespace {

using kernels::CodeKind;
using kernels::QuantizedMatrix;

constexpr RandomCodes kAll[] = {
    {"int4-g128", CodeKind::kInt4, 128},
    {"int4-g128-zeros", CodeKind::kInt4, 128, true},
    {"int4-g32", CodeKind::kInt4, 32},
    {"int8-g32", CodeKind::kInt8, 32, false, 0, true},
    {"fp8-g128", CodeKind::kFp8E4M3, 128},
    {"nvfp4", CodeKind::kFp4E2M1, 16, false, -1},
    {"mxfp4", CodeKind::kFp4E2M1, 32},
    {"q4_1", CodeKind::kInt4Min, 32, false, 0, true},
    {"q4_k", CodeKind::kInt4Min, 32, false, 256, true},
    {"q5_k", CodeKind::kInt5Min, 32, false, 256, true},
    {"q6_k", CodeKind::kInt6, 16, false, 256, true},
};

// The root mean square of a random code's value, less the mean, with the scale 1.
float SpreadOf(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4:
    case CodeKind::kInt4Min:
      return 4.6f;
    case CodeKind::kInt5:
    case CodeKind::kInt5Min:
      return 9.2f;
    case CodeKind::kInt6:
      return 18.5f;
    case CodeKind::kInt8:
      return 73.9f;
    case CodeKind::kFp8E4M3:
      return 100.0f;
    case CodeKind::kFp4E2M1:
      return 2.9f;
  }
  return 1.0f;
}

// The middle of a kind with a minimum.
float MiddleOf(CodeKind kind) { return kind == CodeKind::kInt4Min ? 7.5f : 15.5f; }

float AsHalf(float value) { return kernels::Float16ToFloat(kernels::TruncateToFloat16(value)); }

// The small integers of two levels lie about this one.
constexpr float kMiddleOfSmall = 32.0f;

// The numbers of one row, in the order of the calls.
class RowNumbers {
 public:
  explicit RowNumbers(uint64_t seed) : state_(seed) {}

  uint32_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 32);
  }
  // About 1, with 7 bits behind the point: what bf16 and fp16 hold without a loss.
  float AboutOne() { return 0.75f + static_cast<float>(Next() % 64) / 128.0f; }
  float Small() { return kMiddleOfSmall - 16.0f + static_cast<float>(Next() % 32); }
  // The same, with what E4M3 holds without a loss.
  float SmallE4M3() { return 4.0f * static_cast<float>(4 + Next() % 8); }

 private:
  uint64_t state_;
};

// NVFP4: the scale of the tensor divides.
void AppendNvfp4Scales(float scale, RowNumbers& numbers, QuantizedMatrix* matrix) {
  for (int64_t group = 0; group < matrix->num_groups(); ++group) {
    matrix->scales.push_back(numbers.SmallE4M3());
  }
  matrix->block_scales.push_back(kMiddleOfSmall / scale);
  matrix->block_scales_divide = true;
}

// MXFP4: scales are powers of two.
void AppendMxfp4Scales(float scale, RowNumbers& numbers, QuantizedMatrix* matrix) {
  const int exponent = std::ilogb(scale);
  for (int64_t group = 0; group < matrix->num_groups(); ++group) {
    matrix->scales.push_back(std::ldexp(1.0f, exponent + static_cast<int>(numbers.Next() % 2)));
  }
}

void AppendScales(const RandomCodes& codes, float scale, RowNumbers& numbers,
                  QuantizedMatrix* matrix) {
  if (codes.kind == CodeKind::kFp4E2M1) {
    return codes.block_columns == 0 ? AppendMxfp4Scales(scale, numbers, matrix)
                                    : AppendNvfp4Scales(scale, numbers, matrix);
  }
  const bool has_minimum = kernels::HasMinimum(codes.kind);
  const float middle = MiddleOf(codes.kind);
  if (codes.block_columns == 0) {
    for (int64_t group = 0; group < matrix->num_groups(); ++group) {
      matrix->scales.push_back(kernels::RoundToBFloat16(scale) * numbers.AboutOne());
      matrix->scales.back() = kernels::RoundToBFloat16(matrix->scales.back());
      if (codes.has_zeros) {
        const uint32_t near_zero = numbers.Next() % 4;
        matrix->zeros.push_back(
            static_cast<uint8_t>(kernels::MiddleCode(codes.kind) - 2 + near_zero));
      }
      if (has_minimum) matrix->minima.push_back(AsHalf(middle * scale));
    }
    return;
  }
  for (int64_t group = 0; group < matrix->num_groups(); ++group) {
    matrix->scales.push_back(numbers.Small());
    if (has_minimum) matrix->minima.push_back(matrix->scales.back());
  }
  for (int64_t block = 0; block < matrix->num_scale_blocks(); ++block) {
    matrix->block_scales.push_back(AsHalf(scale / kMiddleOfSmall * numbers.AboutOne()));
    if (has_minimum) matrix->block_minima.push_back(AsHalf(middle * matrix->block_scales.back()));
  }
}

// As many rows as columns share a scale, as in published files with FP8 weights.
bool HasSquareBlocks(const RandomCodes& codes) {
  return codes.kind == CodeKind::kFp8E4M3 && codes.group_columns > 0;
}

void AppendCodes(const RandomCodes& codes, RowNumbers& numbers, QuantizedMatrix* matrix) {
  const uint32_t mask = (1u << kernels::CodeBits(codes.kind)) - 1;
  for (int64_t i = 0; i < matrix->k; ++i) {
    uint32_t code = numbers.Next() >> 8 & mask;
    // E4M3 has two codes that are no numbers.
    if (codes.kind == CodeKind::kFp8E4M3 && (code & 0x7F) == 0x7F) code ^= 1;
    matrix->codes.push_back(static_cast<uint8_t>(code));
  }
}

}  // namespace

std::span<const RandomCodes> AllRandomCodes() { return kAll; }

std::optional<RandomCodes> FindRandomCodes(std::string_view name) {
  const auto found = std::ranges::find(kAll, name, &RandomCodes::name);
  return found == std::end(kAll) ? std::nullopt : std::optional(*found);
}

RandomCodes CodesOfScheme(const WeightScheme& scheme) {
  RandomCodes codes;
  codes.group_columns = scheme.group_size == 0 ? -1 : scheme.group_size;
  codes.has_zeros = !scheme.symmetric;
  switch (scheme.format) {
    case WeightFormat::kFloatQuantized:
    case WeightFormat::kFp8Block:
      codes.kind = CodeKind::kFp8E4M3;
      if (scheme.extent == ScaleExtent::kBlock) codes.group_columns = scheme.block_columns;
      break;
    case WeightFormat::kNvfp4:
    case WeightFormat::kNvfp4ModelOpt:
      return *FindRandomCodes("nvfp4");
    case WeightFormat::kMxfp4:
    case WeightFormat::kMxfp4Packed:
      return *FindRandomCodes("mxfp4");
    default:
      codes.kind = scheme.bits == 4 ? CodeKind::kInt4 : CodeKind::kInt8;
  }
  return codes;
}

bool Fit(const RandomCodes& codes, int64_t num_columns) {
  return num_columns % std::max({codes.group_columns, codes.block_columns, int64_t{1}}) == 0;
}

uint64_t FingerprintOf(const RandomCodes& codes) {
  return Hash64(fmt::format("{} {} {} {}", static_cast<int>(codes.kind), codes.group_columns,
                            codes.has_zeros, codes.block_columns));
}

QuantizedMatrix RandomRows(const RandomTensor& tensor, const RandomCodes& codes,
                           const RowRange& range) {
  QuantizedMatrix matrix;
  matrix.kind = codes.kind;
  matrix.n = range.num_rows;
  matrix.k = range.num_columns;
  matrix.group_columns = codes.group_columns < 0 ? matrix.k : codes.group_columns;
  matrix.block_columns = codes.block_columns < 0 ? matrix.k : codes.block_columns;
  matrix.codes.reserve(static_cast<size_t>(matrix.n * matrix.k));
  const float scale = tensor.deviation / SpreadOf(codes.kind);
  for (int64_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
    RowNumbers numbers(CombineHashes(tensor.seed, static_cast<uint64_t>(row)));
    if (HasSquareBlocks(codes)) {
      const int64_t block = row / codes.group_columns;
      RowNumbers of_block(CombineHashes(~tensor.seed, static_cast<uint64_t>(block)));
      AppendScales(codes, scale, of_block, &matrix);
    } else {
      AppendScales(codes, scale, numbers, &matrix);
    }
    AppendCodes(codes, numbers, &matrix);
  }
  return matrix;
}

}  // namespace lockstep::worker
