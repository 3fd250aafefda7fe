#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/stream.h"

namespace lockstep::kernels {

// Start-up check of the reduction contract: on random data with outliers, a row's outputs must be
// the same bits alone and among any number of other rows. `k` is an inner size that the model uses.
// INTERNAL naming k, the number of rows and the first output that differs.
absl::Status CheckGemmSchedule(const Stream& stream, int64_t k);

}  // namespace lockstep::kernels
