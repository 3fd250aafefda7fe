#pragma once

#include <cstdint>

namespace lockstep::kernels {

// Up to here a product reads each weight once, and memory sets its pace.
inline constexpr int64_t kMaxFewRows = 64;

// The last number of rows of the range that num_rows >= 1 lies in. Each range has its plan, timed
// before serving: a tile more or less is a fifth of the time, so ranges are narrow where few tiles
// make a product.
constexpr int64_t GemmRangeEnd(int64_t num_rows) {
  if (num_rows <= 8) return 8;
  const int64_t step = num_rows <= 16     ? 16
                       : num_rows <= 32   ? 32
                       : num_rows <= 512  ? 64
                       : num_rows <= 2048 ? 128
                       : num_rows <= 4096 ? 1024
                                          : 4096;
  return (num_rows + step - 1) / step * step;
}

}  // namespace lockstep::kernels
