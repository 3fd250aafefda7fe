#include "kernels/formats/compressed_tensors/byte_quantized.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "kernels/formats/tensors/scale_encoding.h"
#include "kernels/formats/tensors/scale_layout.h"

namespace lockstep::kernels {
namespace {

absl::StatusOr<QuantizedMatrix> ReadByteCodes(const SafetensorsTensor& weight, CodeKind kind,
                                              SafetensorsDtype dtype) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(weight, {dtype}));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape shape, ReadMatrixShape(weight));
  QuantizedMatrix matrix;
  matrix.kind = kind;
  matrix.n = shape.rows;
  matrix.k = shape.columns;
  matrix.codes.resize(weight.data.size());
  const uint8_t flip = kind == CodeKind::kInt8 ? 0x80 : 0;  // signed to unsigned: + 128
  std::transform(
      weight.data.begin(), weight.data.end(), matrix.codes.begin(),
      [flip](std::byte byte) { return static_cast<uint8_t>(static_cast<uint8_t>(byte) ^ flip); });
  return matrix;
}

std::vector<uint8_t> SignedBytes(const std::vector<uint8_t>& codes) {
  std::vector<uint8_t> bytes(codes.size());
  std::transform(codes.begin(), codes.end(), bytes.begin(),
                 [](uint8_t code) { return static_cast<uint8_t>(code ^ 0x80u); });
  return bytes;
}

// One row of scales for each block of rows.
absl::StatusOr<std::vector<float>> ScalesOfBlocks(const QuantizedMatrix& matrix,
                                                  int64_t block_rows) {
  const int64_t groups = matrix.num_groups();
  std::vector<float> scales;
  for (int64_t row = 0; row < matrix.n; ++row) {
    const auto own = matrix.scales.begin() + row * groups;
    if (row % block_rows == 0) scales.insert(scales.end(), own, own + groups);
    if (!std::equal(own, own + groups, scales.end() - groups)) {
      return InvalidArgument("row {} has other scales than its block of {} rows", row, block_rows);
    }
  }
  return scales;
}

}  // namespace

absl::StatusOr<QuantizedMatrix> DecodeE4M3(const ModuleTensors& tensors, const WeightScheme& scheme,
                                           std::string_view scale_suffix) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* weight, tensors.Get("weight"));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* scale, tensors.Get(scale_suffix));
  LOCKSTEP_ASSIGN_OR_RETURN(QuantizedMatrix matrix,
                            ReadByteCodes(*weight, CodeKind::kFp8E4M3, SafetensorsDtype::kF8E4M3));
  LOCKSTEP_RETURN_IF_ERROR(SetScales(*scale, scheme, ScaleRounding::kNone, &matrix));
  return Finish(weight->name, std::move(matrix));
}

absl::StatusOr<QuantizedMatrix> DecodeFloatQuantized(const ModuleTensors& tensors,
                                                     const WeightScheme& scheme) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectZeroBytes(tensors.find("weight_zero_point")));
  return DecodeE4M3(tensors, scheme, "weight_scale");
}

absl::StatusOr<QuantizedMatrix> DecodeIntQuantized(const ModuleTensors& tensors,
                                                   const WeightScheme& scheme) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* weight, tensors.Get("weight"));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* scale, tensors.Get("weight_scale"));
  LOCKSTEP_ASSIGN_OR_RETURN(QuantizedMatrix matrix,
                            ReadByteCodes(*weight, CodeKind::kInt8, SafetensorsDtype::kI8));
  LOCKSTEP_RETURN_IF_ERROR(SetScales(*scale, scheme, ScaleRounding::kBFloat16, &matrix));
  if (scheme.symmetric) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectZeroBytes(tensors.find("weight_zero_point")));
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* zeros, tensors.Get("weight_zero_point"));
    LOCKSTEP_RETURN_IF_ERROR(SetSignedZeros(*zeros, scheme, &matrix));
  }
  return Finish(weight->name, std::move(matrix));
}

absl::StatusOr<std::vector<EncodedTensor>> EncodeFloatQuantized(const QuantizedMatrix& matrix,
                                                                SafetensorsDtype scale_dtype,
                                                                int64_t block_rows,
                                                                std::string_view scale_suffix) {
  if (matrix.kind != CodeKind::kFp8E4M3 || !matrix.has_contiguous_groups()) {
    return InvalidArgument("float-quantized holds E4M3 codes with contiguous groups only");
  }
  const int64_t rows_per_scale = std::max<int64_t>(block_rows, 1);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> scales,
                            ScalesOfBlocks(matrix, rows_per_scale));
  const int64_t scale_rows = (matrix.n + rows_per_scale - 1) / rows_per_scale;
  LOCKSTEP_ASSIGN_OR_RETURN(EncodedTensor scale,
                            EncodeScales(std::string(scale_suffix), scale_dtype,
                                         {scale_rows, matrix.num_groups()}, scales));
  std::vector<EncodedTensor> tensors;
  tensors.push_back(
      MakeTensor("weight", SafetensorsDtype::kF8E4M3, {matrix.n, matrix.k}, matrix.codes));
  tensors.push_back(std::move(scale));
  return tensors;
}

absl::StatusOr<std::vector<EncodedTensor>> EncodeIntQuantized(const QuantizedMatrix& matrix,
                                                              SafetensorsDtype scale_dtype) {
  if (matrix.kind != CodeKind::kInt8 || !matrix.has_contiguous_groups()) {
    return InvalidArgument("int-quantized holds int8 codes with contiguous groups only");
  }
  const std::vector<int64_t> shape = {matrix.n, matrix.num_groups()};
  LOCKSTEP_ASSIGN_OR_RETURN(EncodedTensor scale,
                            EncodeScales("weight_scale", scale_dtype, shape, matrix.scales));
  std::vector<EncodedTensor> tensors;
  tensors.push_back(
      MakeTensor("weight", SafetensorsDtype::kI8, {matrix.n, matrix.k}, SignedBytes(matrix.codes)));
  tensors.push_back(std::move(scale));
  if (!matrix.zeros.empty()) {
    tensors.push_back(
        MakeTensor("weight_zero_point", SafetensorsDtype::kI8, shape, SignedBytes(matrix.zeros)));
  }
  return tensors;
}

}  // namespace lockstep::kernels
