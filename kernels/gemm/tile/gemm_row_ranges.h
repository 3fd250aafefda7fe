#pragma once

#include <cstdint>

namespace lockstep::kernels {

// Up to here our kernel runs with a tiling by rule. Beyond, each range of rows has its plan, timed
// before serving: a tile more or less is a fifth of the time, so ranges are narrow where few tiles
// make a product.
inline constexpr int64_t kMaxUnplannedRows = 64;

// The last number of rows of the range that num_rows > kMaxUnplannedRows lies in.
constexpr int64_t GemmRangeEnd(int64_t num_rows) {
  const int64_t step = num_rows <= 512    ? 64
                       : num_rows <= 2048 ? 128
                       : num_rows <= 4096 ? 1024
                                          : 4096;
  return (num_rows + step - 1) / step * step;
}

}  // namespace lockstep::kernels
