#pragma once

#include <cstdint>
#include <string>

namespace lockstep::kernels {

// Two kernels. kFewRows: weights on the M side of the matrix instruction, all input rows on its N
// side. kManyRows: input rows on the M side. Both give the same bits.
enum class Fp8Unit { kFewRows, kManyRows };

// How Fp8Gemm cuts a product into tiles. It decides speed alone: every tiling gives the same bits.
struct Fp8Tiling {
  Fp8Unit unit = Fp8Unit::kFewRows;
  int input_rows = 0;   // of a tile. Few rows: 8, 16, 32, 64 or 128. Many: 128 or 256
  int weight_rows = 0;  // of a tile. Few rows: a multiple of 16 up to 128. Many: 128
  int num_stages = 0;   // of the ring between the copy engine and the matrix units
  // Many rows, 256 in a tile: 2 blocks share the input rows, and each fetches half of them for
  // both.
  int cluster_blocks = 1;
};

struct Fp8Problem {
  int64_t n = 0;  // weight rows
  int64_t k = 0;
  int64_t num_rows = 0;  // of the input
};

// The most input rows that the kernel for few rows takes.
inline constexpr int64_t kMaxFp8FewRows = 128;
// Weight rows of a tile for many rows. They share a block scale.
inline constexpr int kFp8TileColumns = 128;
inline constexpr int64_t kMaxFp8SharedBytes = 227 * 1024;

// Blocks of 128 columns in a stage for few rows. Each has a partial sum of its own in registers.
constexpr int Fp8SlabBlocks(int input_rows) { return input_rows <= 64 ? 4 : 2; }
// Few rows: input rows that are fetched, a multiple of 8.
int Fp8FetchedRows(const Fp8Problem& problem, const Fp8Tiling& tiling);
// Shared memory that the tiling takes.
int64_t Fp8SharedBytes(const Fp8Problem& problem, const Fp8Tiling& tiling);
// As many stages as fit into `shared_bytes` with all else, at most 12; below 2: the tiling does not
// fit.
int Fp8Stages(const Fp8Problem& problem, const Fp8Tiling& tiling, int64_t shared_bytes);

// What an H200 was fastest with. lockstep-fp8-cuda-benchmark --tilings times the alternatives.
Fp8Tiling ChooseFp8Tiling(const Fp8Problem& problem, int num_multiprocessors);

// For people: "few 32w x 8 s10", "many 256 x 128 s4 c2".
std::string DescribeFp8Tiling(const Fp8Tiling& tiling);

}  // namespace lockstep::kernels
