#include "kernels/formats/awq/awq.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "kernels/formats/tensors/scale_encoding.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kNibbles = 8;
constexpr int64_t kAwqRowOfNibble[kNibbles] = {0, 2, 4, 6, 1, 3, 5, 7};

// Rows that are taken together, so that both sides of the transposition stay in the cache.
constexpr int64_t kTileRows = 64;

// Words [rows, words] to codes [8 * words, rows].
std::vector<uint8_t> UnpackAwq(const SafetensorsTensor& packed, int64_t rows, int64_t words) {
  std::vector<uint8_t> codes(static_cast<size_t>(rows * words * kNibbles));
  for (int64_t tile = 0; tile < rows; tile += kTileRows) {
    const int64_t end = std::min(tile + kTileRows, rows);
    for (int64_t word = 0; word < words; ++word) {
      uint8_t* const columns = codes.data() + word * kNibbles * rows;
      for (int64_t row = tile; row < end; ++row) {
        const uint32_t bits = WordAt(packed, row * words + word);
        for (int64_t i = 0; i < kNibbles; ++i) {
          columns[kAwqRowOfNibble[i] * rows + row] = (bits >> (4 * i)) & 15u;
        }
      }
    }
  }
  return codes;
}

std::vector<uint32_t> PackAwq(const std::vector<uint8_t>& codes, int64_t rows, int64_t words) {
  std::vector<uint32_t> packed(static_cast<size_t>(rows * words));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t word = 0; word < words; ++word) {
      uint32_t bits = 0;
      for (int64_t i = 0; i < kNibbles; ++i) {
        const int64_t column = word * kNibbles + kAwqRowOfNibble[i];
        bits |= uint32_t{codes[static_cast<size_t>(column * rows + row)]} << (4 * i);
      }
      packed[static_cast<size_t>(row * words + word)] = bits;
    }
  }
  return packed;
}

}  // namespace

absl::StatusOr<QuantizedMatrix> DecodeAwq(const ModuleTensors& tensors,
                                          const WeightScheme& scheme) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* weight, tensors.Get("qweight"));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* zeros, tensors.Get("qzeros"));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* scales, tensors.Get("scales"));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*weight, {SafetensorsDtype::kI32}));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*zeros, {SafetensorsDtype::kI32}));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape words, ReadMatrixShape(*weight));
  const int64_t k = words.rows, n = words.columns * kNibbles;
  const int64_t group = scheme.group_size > 0 ? int64_t{scheme.group_size} : k;
  if (k % group != 0) {
    return InvalidArgument("tensor {}: {} rows do not divide into groups of {}", weight->name, k,
                           group);
  }
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(*zeros, {k / group, words.columns}));
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(*scales, {k / group, n}));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> by_group, ReadRoundedScales(*scales));
  QuantizedMatrix matrix;
  matrix.kind = CodeKind::kInt4;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = group;
  matrix.codes = UnpackAwq(*weight, k, words.columns);
  matrix.zeros = UnpackAwq(*zeros, k / group, words.columns);
  matrix.scales = Transposed(by_group, k / group, n);
  return Finish(weight->name, std::move(matrix));
}

absl::StatusOr<std::vector<EncodedTensor>> EncodeAwq(const QuantizedMatrix& matrix,
                                                     SafetensorsDtype scale_dtype) {
  const int64_t groups = matrix.num_groups();
  if (matrix.kind != CodeKind::kInt4 || matrix.n % kNibbles != 0 ||
      !matrix.has_contiguous_groups() || groups * matrix.group_columns != matrix.k) {
    return InvalidArgument("AWQ holds 4-bit codes, rows in multiples of 8, and whole groups only");
  }
  const int64_t words = matrix.n / kNibbles;
  const std::vector<uint8_t> zeros =
      matrix.zeros.empty() ? std::vector<uint8_t>(matrix.scales.size(), 8) : matrix.zeros;
  LOCKSTEP_ASSIGN_OR_RETURN(EncodedTensor scales,
                            EncodeScales("scales", scale_dtype, {groups, matrix.n},
                                         Transposed(matrix.scales, matrix.n, groups)));
  std::vector<EncodedTensor> tensors;
  tensors.push_back(MakeTensor("qweight", SafetensorsDtype::kI32, {matrix.k, words},
                               PackAwq(matrix.codes, matrix.k, words)));
  tensors.push_back(
      MakeTensor("qzeros", SafetensorsDtype::kI32, {groups, words}, PackAwq(zeros, groups, words)));
  tensors.push_back(std::move(scales));
  return tensors;
}

}  // namespace lockstep::kernels
