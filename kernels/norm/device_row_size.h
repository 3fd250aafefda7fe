#pragma once

#include <cstdint>

namespace lockstep::kernels {

// Elements of a row that the norms on the device take, at most. A block keeps a row in registers.
inline constexpr int64_t kMaxDeviceRowSize = 8192;

}  // namespace lockstep::kernels
