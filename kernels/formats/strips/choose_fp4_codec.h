#pragma once

#include <absl/status/statusor.h>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/strips/strip_codec.h"

namespace lockstep::kernels {

// ChooseStripCodec for codes of E2M1. The groups must have been checked.
//   kMxfp4: scales of one level, powers of two from 2^-127 to 2.
//   kNvfp4: scales of two levels. Those of groups are values of E4M3. A block is a row with a
//     positive scale. Both levels make 0, or a magnitude from kMinNvfp4Scale to below
//     kMaxNvfp4Scale.
absl::StatusOr<StripCodec> ChooseFp4Codec(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
