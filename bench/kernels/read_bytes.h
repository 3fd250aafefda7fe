#pragma once

#include <absl/status/status.h>

#include <cstddef>

#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// Reads `size` bytes of device memory at `data` (both multiples of 16), and does nothing else: what
// a product over as many bytes of weights can at best take.
absl::Status ReadBytes(const CudaStream& stream, const void* data, size_t size);

}  // namespace lockstep::kernels
