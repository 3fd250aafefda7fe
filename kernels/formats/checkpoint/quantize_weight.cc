#include "kernels/formats/checkpoint/quantize_weight.h"

#include <utility>

#include "common/status.h"
#include "kernels/core/divide_up.h"
#include "kernels/formats/compressed_tensors/byte_quantized.h"
#include "kernels/formats/compressed_tensors/pack_quantized.h"
#include "kernels/formats/fp8_block/fp8_block.h"
#include "kernels/formats/quantize.h"
#include "kernels/formats/tensors/tensor_checks.h"
#include "kernels/quant/dequantize.h"

namespace lockstep::kernels {
namespace {

// Of a checked tensor.
MatrixShape ShapeOfWeight(const SafetensorsTensor& weight) {
  return {static_cast<int64_t>(weight.shape[0]), static_cast<int64_t>(weight.shape[1])};
}

bool ComputesInBFloat16(const SafetensorsTensor& weight, const WeightScheme& scheme) {
  return weight.dtype == SafetensorsDtype::kBF16 && scheme.format != WeightFormat::kFp8Block;
}

SafetensorsDtype ScaleDtype(const SafetensorsTensor& weight, const WeightScheme& scheme) {
  const bool is_integer = scheme.format == WeightFormat::kPackQuantized;
  return is_integer || ComputesInBFloat16(weight, scheme) ? SafetensorsDtype::kBF16
                                                          : SafetensorsDtype::kF32;
}

QuantizeOptions OptionsOf(const SafetensorsTensor& weight, const WeightScheme& scheme) {
  QuantizeOptions options;
  options.symmetric = scheme.symmetric;
  options.group_columns = scheme.extent == ScaleExtent::kGroup ? scheme.group_size : 0;
  options.arithmetic = ComputesInBFloat16(weight, scheme) ? QuantizeArithmetic::kBFloat16
                                                          : QuantizeArithmetic::kFloat32;
  if (scheme.format == WeightFormat::kPackQuantized) {
    options.kind = scheme.bits == 4 ? CodeKind::kInt4 : CodeKind::kInt8;
    options.scales_in_bf16 = true;
    return options;
  }
  options.kind = CodeKind::kFp8E4M3;
  if (scheme.extent == ScaleExtent::kBlock) {
    options.group_columns = scheme.block_columns;
    options.group_rows = scheme.block_rows;
  }
  return options;
}

absl::StatusOr<std::vector<float>> ReadWeights(const SafetensorsTensor& weight) {
  const MatrixShape shape = ShapeOfWeight(weight);
  std::vector<float> values(static_cast<size_t>(shape.rows * shape.columns));
  const GgmlType type = weight.dtype == SafetensorsDtype::kF32   ? GgmlType::kF32
                        : weight.dtype == SafetensorsDtype::kF16 ? GgmlType::kF16
                                                                 : GgmlType::kBF16;
  LOCKSTEP_RETURN_IF_ERROR(Annotate(Dequantize(type, weight.data, values), weight.name));
  return values;
}

}  // namespace

absl::Status CheckQuantizableTensor(const SafetensorsTensor& weight, const WeightScheme& scheme) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(
      weight, {SafetensorsDtype::kF32, SafetensorsDtype::kF16, SafetensorsDtype::kBF16}));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape shape, ReadMatrixShape(weight));
  if (scheme.extent == ScaleExtent::kGroup && shape.columns % scheme.group_size != 0) {
    return InvalidArgument("tensor {}: {} columns do not divide into groups of {}", weight.name,
                           shape.columns, scheme.group_size);
  }
  return absl::OkStatus();
}

std::vector<TensorSpec> PlanQuantizedWeight(const std::string& module,
                                            const SafetensorsTensor& weight,
                                            const WeightScheme& scheme) {
  const uint64_t n = weight.shape[0], k = weight.shape[1];
  const SafetensorsDtype scale_dtype = ScaleDtype(weight, scheme);
  if (scheme.format != WeightFormat::kPackQuantized) {
    const bool is_block = scheme.extent == ScaleExtent::kBlock;
    const std::vector<uint64_t> scales = {is_block ? DivideUp(n, scheme.block_rows) : n,
                                          is_block ? DivideUp(k, scheme.block_columns) : 1};
    return {{module + ".weight", SafetensorsDtype::kF8E4M3, {n, k}},
            {module + (is_block ? ".weight_scale_inv" : ".weight_scale"), scale_dtype, scales}};
  }
  const uint64_t per_word = 32 / scheme.bits;
  const uint64_t groups = scheme.extent == ScaleExtent::kGroup ? k / scheme.group_size : 1;
  std::vector<TensorSpec> specs = {
      {module + ".weight_packed", SafetensorsDtype::kI32, {n, DivideUp(k, per_word)}},
      {module + ".weight_scale", scale_dtype, {n, groups}},
      {module + ".weight_shape", SafetensorsDtype::kI64, {2}}};
  if (!scheme.symmetric) {
    specs.push_back(
        {module + ".weight_zero_point", SafetensorsDtype::kI32, {DivideUp(n, per_word), groups}});
  }
  return specs;
}

absl::StatusOr<std::vector<EncodedTensor>> QuantizeWeight(const SafetensorsTensor& weight,
                                                          const WeightScheme& scheme) {
  const MatrixShape shape = ShapeOfWeight(weight);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> values, ReadWeights(weight));
  absl::StatusOr<QuantizedMatrix> matrix =
      QuantizeToNearest(values, shape.rows, shape.columns, OptionsOf(weight, scheme));
  if (!matrix.ok()) return Annotate(matrix.status(), fmt::format("tensor {}", weight.name));
  const SafetensorsDtype scale_dtype = ScaleDtype(weight, scheme);
  switch (scheme.format) {
    case WeightFormat::kPackQuantized:
      return EncodePackQuantized(*matrix, scale_dtype);
    case WeightFormat::kFloatQuantized:
      return EncodeFloatQuantized(*matrix, scale_dtype);
    case WeightFormat::kFp8Block:
      return EncodeFp8Block(*matrix, scale_dtype, scheme.block_rows);
    default:
      return InvalidArgument("tensor {}: nothing writes {}", weight.name,
                             WeightFormatName(scheme.format));
  }
}

}  // namespace lockstep::kernels
