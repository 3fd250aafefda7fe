#pragma once

#include <cstddef>
#include <span>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/strips/strip_matrix.h"

namespace lockstep::kernels {

// PackStrips for kMxfp4 and kNvfp4. `storage`: zeros, as many bytes as `strips` has.
void PackFp4Strips(const QuantizedMatrix& matrix, const StripMatrix& strips,
                   std::span<std::byte> storage);

}  // namespace lockstep::kernels
