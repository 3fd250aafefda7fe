#include "kernels/formats/nvfp4/nvfp4.h"

#include <utility>

#include "common/status.h"
#include "kernels/formats/small_floats.h"
#include "kernels/formats/tensors/fp4_codes.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kNvfp4Group = 16;

struct Nvfp4Names {
  std::string_view codes, scales, global;
};
constexpr Nvfp4Names kCompressedNames = {"weight_packed", "weight_scale", "weight_global_scale"};
constexpr Nvfp4Names kModelOptNames = {"weight", "weight_scale", "weight_scale_2"};

absl::StatusOr<float> ReadGlobalScale(const SafetensorsTensor& tensor) {
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(tensor, {SafetensorsDtype::kF32}));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> values, ReadScales(tensor));
  if (values.size() == 1 && values[0] > 0) return values[0];
  return InvalidArgument("tensor {}: {} with {}, expected one number > 0", tensor.name,
                         DescribeTensor(tensor), values.empty() ? 0.0f : values[0]);
}

}  // namespace

absl::StatusOr<QuantizedMatrix> DecodeNvfp4(const ModuleTensors& tensors,
                                            const WeightScheme& scheme) {
  const bool divides = scheme.format == WeightFormat::kNvfp4;
  const Nvfp4Names& names = divides ? kCompressedNames : kModelOptNames;
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* packed, tensors.Get(names.codes));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* scales, tensors.Get(names.scales));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* global_tensor, tensors.Get(names.global));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*packed, {SafetensorsDtype::kU8}));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*scales, {SafetensorsDtype::kF8E4M3}));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape bytes, ReadMatrixShape(*packed));
  QuantizedMatrix matrix;
  matrix.kind = CodeKind::kFp4E2M1;
  matrix.n = bytes.rows;
  matrix.k = 2 * bytes.columns;
  matrix.group_columns = kNvfp4Group;
  matrix.block_columns = matrix.k;
  matrix.block_scales_divide = divides;
  if (matrix.k % kNvfp4Group != 0) {
    return InvalidArgument("tensor {}: {} columns do not divide into groups of {}", packed->name,
                           matrix.k, kNvfp4Group);
  }
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(*scales, {matrix.n, matrix.num_groups()}));
  LOCKSTEP_ASSIGN_OR_RETURN(const float global, ReadGlobalScale(*global_tensor));
  for (const std::byte byte : scales->data) {
    const auto code = static_cast<uint8_t>(byte);
    if (IsE4M3Nan(code)) {
      const auto index = static_cast<int64_t>(matrix.scales.size());
      return InvalidArgument("tensor {}: element [{}, {}] is NaN", scales->name,
                             index / matrix.num_groups(), index % matrix.num_groups());
    }
    matrix.scales.push_back(E4M3ToFloat(code));
  }
  matrix.block_scales.assign(static_cast<size_t>(matrix.n), global);
  matrix.codes = UnpackNibbles(packed->data);
  return Finish(packed->name, std::move(matrix));
}

}  // namespace lockstep::kernels
