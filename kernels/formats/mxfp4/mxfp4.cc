#include "kernels/formats/mxfp4/mxfp4.h"

#include <bit>
#include <cmath>
#include <utility>

#include "common/status.h"
#include "kernels/formats/small_floats.h"
#include "kernels/formats/tensors/fp4_codes.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kMxfp4Group = 32;

// `codes`: the bytes of [n, k / 2]; `scales`: those of [n, k / 32].
absl::StatusOr<QuantizedMatrix> MakeMxfp4(const SafetensorsTensor& codes_tensor,
                                          const SafetensorsTensor& scales_tensor, int64_t n,
                                          std::span<const std::byte> codes,
                                          std::span<const std::byte> scales) {
  QuantizedMatrix matrix;
  matrix.kind = CodeKind::kFp4E2M1;
  matrix.n = n;
  matrix.k = 2 * static_cast<int64_t>(codes.size()) / n;
  matrix.group_columns = kMxfp4Group;
  for (const std::byte scale : scales) {
    if (static_cast<uint8_t>(scale) == kE8M0Nan) {
      const auto index = static_cast<int64_t>(matrix.scales.size());
      return InvalidArgument("tensor {}: the scale of row {}, group {} is NaN", scales_tensor.name,
                             index / matrix.num_groups(), index % matrix.num_groups());
    }
    matrix.scales.push_back(E8M0ToFloat(static_cast<uint8_t>(scale)));
  }
  matrix.codes = UnpackNibbles(codes);
  return Finish(codes_tensor.name, std::move(matrix));
}

}  // namespace

absl::StatusOr<QuantizedMatrix> DecodeMxfp4Packed(const ModuleTensors& tensors) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* packed, tensors.Get("weight_packed"));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* scales, tensors.Get("weight_scale"));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*packed, {SafetensorsDtype::kU8}));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*scales, {SafetensorsDtype::kU8}));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape bytes, ReadMatrixShape(*packed));
  const int64_t k = 2 * bytes.columns;
  if (k % kMxfp4Group != 0) {
    return InvalidArgument("tensor {}: {} columns do not divide into groups of {}", packed->name, k,
                           kMxfp4Group);
  }
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(*scales, {bytes.rows, k / kMxfp4Group}));
  return MakeMxfp4(*packed, *scales, bytes.rows, packed->data, scales->data);
}

absl::StatusOr<std::vector<EncodedTensor>> EncodeMxfp4Packed(const QuantizedMatrix& matrix) {
  if (matrix.kind != CodeKind::kFp4E2M1 || matrix.group_columns != kMxfp4Group ||
      matrix.k % kMxfp4Group != 0 || matrix.has_two_levels()) {
    return InvalidArgument("MXFP4 holds E2M1 codes in groups of {} with one level of scales only",
                           kMxfp4Group);
  }
  std::vector<uint8_t> exponents;
  for (const float scale : matrix.scales) {
    const uint8_t code =
        scale > 0 && std::isfinite(scale) ? static_cast<uint8_t>(127 + std::ilogb(scale)) : 0;
    if (E8M0ToFloat(code) != scale) {
      return InvalidArgument("weight_scale: the scale {} is no power of two", scale);
    }
    exponents.push_back(code);
  }
  std::vector<EncodedTensor> tensors;
  tensors.push_back(MakeTensor("weight_packed", SafetensorsDtype::kU8, {matrix.n, matrix.k / 2},
                               PackNibbles(matrix.codes)));
  tensors.push_back(MakeTensor("weight_scale", SafetensorsDtype::kU8,
                               {matrix.n, matrix.num_groups()}, exponents));
  return tensors;
}

absl::StatusOr<QuantizedMatrix> DecodeMxfp4Expert(const SafetensorsTensor& blocks,
                                                  const SafetensorsTensor& scales, int64_t expert) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(blocks, {SafetensorsDtype::kU8}));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(scales, {SafetensorsDtype::kU8}));
  const auto& shape = blocks.shape;
  const bool fits = shape.size() == 4 && shape[0] > 0 && shape[1] > 0 && shape[2] > 0 &&
                    shape[3] == kMxfp4Group / 2 &&
                    blocks.data.size() <= static_cast<uint64_t>(kMaxMatrixElements);
  if (!fits) {
    return InvalidArgument("tensor {}: {}, expected [experts, rows, columns / {}, {}]", blocks.name,
                           DescribeTensor(blocks), kMxfp4Group, kMxfp4Group / 2);
  }
  const auto experts = static_cast<int64_t>(shape[0]), rows = static_cast<int64_t>(shape[1]);
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(scales, {experts, rows, static_cast<int64_t>(shape[2])}));
  if (expert < 0 || expert >= experts) {
    return InvalidArgument("tensor {}: expert {} of {}", blocks.name, expert, experts);
  }
  const size_t code_bytes = blocks.data.size() / shape[0], scale_bytes = code_bytes / 16;
  const auto index = static_cast<size_t>(expert);
  return MakeMxfp4(blocks, scales, rows, blocks.data.subspan(index * code_bytes, code_bytes),
                   scales.data.subspan(index * scale_bytes, scale_bytes));
}

}  // namespace lockstep::kernels
