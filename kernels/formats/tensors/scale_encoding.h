#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/model_files/safetensors.h"
#include "kernels/formats/tensors/encoded_tensor.h"

namespace lockstep::kernels {

// Scales as F32, F16 or BF16. INVALID_ARGUMENT if the type does not hold one of them exactly: what
// is read again must be what was written.
absl::StatusOr<EncodedTensor> EncodeScales(std::string suffix, SafetensorsDtype dtype,
                                           std::vector<int64_t> shape,
                                           std::span<const float> scales);

}  // namespace lockstep::kernels
