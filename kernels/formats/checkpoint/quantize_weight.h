#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "common/model_files/safetensors.h"
#include "common/model_files/safetensors_writer.h"
#include "kernels/formats/tensors/encoded_tensor.h"

// From a checkpoint's weights to a published layout: kPackQuantized with groups or rows,
// kFloatQuantized with rows, kFp8Block.
namespace lockstep::kernels {

// OK if this tensor can become codes of this scheme; INVALID_ARGUMENT naming the tensor.
absl::Status CheckQuantizableTensor(const SafetensorsTensor& weight, const WeightScheme& scheme);

// The tensors that stand for "module.weight", in the order of QuantizeWeight.
std::vector<TensorSpec> PlanQuantizedWeight(const std::string& module,
                                            const SafetensorsTensor& weight,
                                            const WeightScheme& scheme);

// Round to nearest, in the arithmetic of compressed-tensors for bf16 weights, else in fp32. Scales
// are bf16; in fp32 for E4M3 codes of weights that are not bf16, and for blocks.
// `weight`: F32, F16 or BF16 [N, K], checked.
absl::StatusOr<std::vector<EncodedTensor>> QuantizeWeight(const SafetensorsTensor& weight,
                                                          const WeightScheme& scheme);

}  // namespace lockstep::kernels
