#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <span>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::worker {

// Makes a backend's packed weights of the parts of a product, which lie one below the other. Any
// thread calls it. INVALID_ARGUMENT if the backend has no storage for such codes.
using MakePackedWeights = std::function<absl::StatusOr<std::unique_ptr<kernels::PackedWeights>>(
    std::span<const kernels::QuantizedMatrix> parts)>;

}  // namespace lockstep::worker
