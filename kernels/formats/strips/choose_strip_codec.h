#pragma once

#include <absl/status/statusor.h>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/strips/strip_codec.h"

namespace lockstep::kernels {

// The codec that holds the matrix without a loss. INVALID_ARGUMENT naming the reason if none does,
// as for groups of some sizes, groups that are not contiguous, scales that the codec cannot store
// exactly. Such a matrix must be converted to bf16.
absl::StatusOr<StripCodec> ChooseStripCodec(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
