#pragma once

#include <cstdint>

namespace lockstep::kernels {

// Up to here our kernel runs with a tiling by rule. Beyond, each range of rows has its plan, timed
// before serving: a tile more or less is a fifth of the time, so ranges are narrow where few tiles
// make a product.
inline constexpr int64_t kMaxUnplannedRows = 64;

// The range that num_rows > kMaxUnplannedRows lies in: how many numbers of rows it has, the first
// one, which is odd, and the last one.
constexpr int64_t GemmRangeSize(int64_t num_rows) {
  return num_rows <= 512 ? 64 : num_rows <= 2048 ? 128 : num_rows <= 4096 ? 1024 : 4096;
}
constexpr int64_t GemmRangeBegin(int64_t num_rows) {
  const int64_t size = GemmRangeSize(num_rows);
  return (num_rows - 1) / size * size + 1;
}
constexpr int64_t GemmRangeEnd(int64_t num_rows) {
  return GemmRangeBegin(num_rows) + GemmRangeSize(num_rows) - 1;
}

}  // namespace lockstep::kernels
