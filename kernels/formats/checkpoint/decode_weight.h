#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <string_view>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/tensor_checks.h"

// One entry for all published layouts of a linear module's weights.
namespace lockstep::kernels {

// The suffixes of the tensors that the format of a module may have, the one with the codes first.
std::span<const std::string_view> TensorSuffixes(WeightFormat format);

// The shape of the weights: {N, K}, from the tensor with the codes and, for kPackQuantized,
// weight_shape. DecodeWeight checks the rest.
absl::StatusOr<MatrixShape> ReadShapeOfWeight(const ModuleTensors& tensors,
                                              const WeightScheme& scheme);

// Decodes the weights of a module. INVALID_ARGUMENT naming the tensor and what is wrong with it;
// the tensors of several experts (kMxfp4) need DecodeMxfp4Expert.
absl::StatusOr<QuantizedMatrix> DecodeWeight(const ModuleTensors& tensors,
                                             const WeightScheme& scheme);

// The tensors of a module in a checkpoint, which must outlive the result.
ModuleTensors TensorsOfModule(const SafetensorsCheckpoint& checkpoint, std::string_view module);

}  // namespace lockstep::kernels
