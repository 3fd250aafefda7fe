#include "kernels/attention/paged_attention_cuda.h"
#include "kernels/attention/prefill/prefill_rows.cuh"
#include "kernels/core/ptx/mma.cuh"

// Prefill for head_dims of 16, 32, 80 and 96, in the manner of arXiv 2307.08691. A block walks all
// keys up to the position of its last row. Each of its eight warps has 16 rows for itself. The
// first warp also keeps a ring of key tiles filled.
namespace lockstep::kernels {
namespace {

constexpr int kPrefillThreads = 256;
constexpr int kNumWarps = kPrefillThreads / 32;
constexpr int kPrefillBlockRows = static_cast<int>(kSmallPrefillTileRows);
static_assert(kPrefillBlockRows == kNumWarps * kPrefillWarpRows);

template <int kHeadDim, KvType kType>
struct PrefillShared {
  static constexpr int kStages = 3;
  static constexpr int kTileBytes = kKeyTilePages * KvTile<kHeadDim, kType>::kPageBytes;
  static constexpr int kQueryBytes = kPrefillBlockRows * kHeadDim * 2;
  static constexpr int kQueries = kStages * kTileBytes;  // offset
  static constexpr int kBarriers = kQueries + kQueryBytes;
  static constexpr int kBytes = kBarriers + 2 * kStages * 8;
};

// The result of the keys since the last border, or of those before it, for rows g and g + 8.
template <int kHeadDim>
struct RowsPartial {
  static constexpr int kTiles = kHeadDim / 8;

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) rows[half] = SoftmaxRow();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) values[n][j] = 0.0f;
    }
  }

  // Folds in `open`, the partial of the next split, and clears it.
  __device__ __forceinline__ void Fold(float exponent_scale, RowsPartial& open) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PartialFold fold(rows[half].reference, open.rows[half].reference, exponent_scale);
      rows[half].reference = fold.reference;
      rows[half].sum = fold(rows[half].sum, SumOverQuad(open.rows[half].sum));
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
          values[n][j] = fold(values[n][j], open.values[n][j]);
        }
      }
    }
    open.Clear();
  }

  __device__ __forceinline__ void Write(int half, int lane, BFloat16* output) const {
    const float reciprocal = __frcp_rn(rows[half].sum);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      *reinterpret_cast<uint32_t*>(output + 8 * n + lane % 4 * 2) =
          FinishPair(values[n][2 * half], values[n][2 * half + 1], reciprocal);
    }
  }

  SoftmaxRow rows[2];
  float values[kTiles][4];
};

// Copies the block's queries to shared memory, 16 bytes at a time, to chunk target(row, chunk).
// Rows beyond the last are zero.
template <int kHeadDim, typename Target>
__device__ __forceinline__ void LoadQueries(const PrefillArguments& arguments, const RowTile& tile,
                                            unsigned char* queries, const Target& target) {
  constexpr int kChunks = kHeadDim / kKvChunkElements;
  for (int i = threadIdx.x; i < kPrefillBlockRows * kChunks; i += kPrefillThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < tile.num_rows) {
      value = *reinterpret_cast<const uint4*>(
          arguments.params.query + RowOffset(arguments, tile, row, arguments.params.query_stride) +
          chunk * kKvChunkElements);
    }
    *reinterpret_cast<uint4*>(queries + 16 * target(row, chunk)) = value;
  }
}

// Copies key tiles into the ring, one after the other. Only the first warp uses it.
template <int kHeadDim, KvType kType>
struct TileLoader {
  using Shared = PrefillShared<kHeadDim, kType>;
  static constexpr int kPageBytes = KvTile<kHeadDim, kType>::kPageBytes;

  __device__ __forceinline__ TileLoader(const PrefillArguments& arguments, const RowTile& tile,
                                        uint32_t shared, int lane)
      : kv(arguments.params.kv),
        pages(arguments.params.block_tables +
              tile.chunk.block_table_row * arguments.params.block_table_stride),
        num_pages((tile.num_keys + kKvBlockTokens - 1) / kKvBlockTokens),
        kv_head(tile.kv_head),
        shared(shared),
        lane(lane) {
    FetchPage();
  }

  __device__ __forceinline__ void FetchPage() {
    if (lane < kKeyTilePages && page + lane < num_pages) lane_page = pages[page + lane];
  }

  __device__ __forceinline__ void LoadNext() {
    if (page >= num_pages) return;
    const int tile_pages = min(num_pages - page, kKeyTilePages);
    const uint32_t full = shared + Shared::kBarriers + 8 * slot.stage;
    ptx::WaitBarrier(full + 8 * Shared::kStages, slot.phase ^ 1);
    if (lane == 0) ptx::ArriveExpectBytes(full, tile_pages * kPageBytes);
    __syncwarp();
    if (lane < tile_pages) {
      ptx::CopyBulk(shared + slot.stage * Shared::kTileBytes + lane * kPageBytes,
                    PageInPool<kType>(kv, lane_page, kv_head), kPageBytes, full);
    }
    page += kKeyTilePages;
    FetchPage();
    slot.Advance(Shared::kStages);
  }

  PagedKv kv;
  const BlockId* pages;
  int num_pages;
  int kv_head;
  uint32_t shared;
  int lane;
  int page = 0;
  BlockId lane_page = 0;
  RingSlot slot;
};

// A warp's 16 rows.
template <int kHeadDim, KvType kType>
struct RowsWarp {
  using Tile = KvTile<kHeadDim, kType>;

  __device__ __forceinline__ void Begin(uint32_t queries) {
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
      KvTile<kHeadDim>::LoadRows(query[step], queries, step, lane);
    }
    open.Clear();
    closed.Clear();
  }

  // Pages that were not copied give arbitrary scores. The mask covers them.
  __device__ __forceinline__ void Score(uint32_t tile, float (&scores)[8][4]) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) scores[n][j] = 0.0f;
    }
    typename Tile::KeyScales scales[kKeyTilePages];
#pragma unroll
    for (int page = 0; page < kKeyTilePages; ++page) {
      scales[page] = {tile + page * Tile::kPageBytes, lane};
    }
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
#pragma unroll
      for (int page = 0; page < kKeyTilePages; ++page) {
        uint32_t b[4];
        Tile::LoadKeys(b, tile + page * Tile::kPageBytes, step, scales[page], lane);
        ptx::MmaM16N8K16(scores[2 * page], query[step], b[0], b[1]);
        ptx::MmaM16N8K16(scores[2 * page + 1], query[step], b[2], b[3]);
      }
    }
  }

  __device__ __forceinline__ void Attend(float (&scores)[8][4], float exponent_scale, uint32_t tile,
                                         int num_keys) {
    uint32_t weights[kKeyTilePages][4];
    float rescale[2];
    SoftmaxStep<2>(exponent_scale, scores, open.rows, weights, rescale);
    Rescale(rescale, open.values);
    if (num_keys == kKeyTile) {
#pragma unroll
      for (int page = 0; page < kKeyTilePages; ++page) {
        AddValues(tile + page * Tile::kPageBytes, kKvBlockTokens, weights[page]);
      }
    } else {
#pragma unroll
      for (int page = 0; page < kKeyTilePages; ++page) {
        const int page_keys = num_keys - page * kKvBlockTokens;
        if (page_keys > 0) AddValues(tile + page * Tile::kPageBytes, page_keys, weights[page]);
      }
    }
  }

  __device__ __forceinline__ void AddValues(uint32_t page, int num_keys,
                                            const uint32_t (&weights)[4]) {
    const typename Tile::ValueScales scales(page, lane);
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
      uint32_t b[4];
      Tile::LoadValues(b, page, step, scales, lane);
      if (num_keys < kKvBlockTokens) ClearValuesFrom(b, num_keys, lane);
      ptx::MmaM16N8K16(open.values[2 * step], weights, b[0], b[1]);
      ptx::MmaM16N8K16(open.values[2 * step + 1], weights, b[2], b[3]);
    }
  }

  int lane;
  int positions[2];  // of rows g and g + 8; -1: no such row
  uint32_t query[Tile::kSteps][4];
  RowsPartial<kHeadDim> open;    // since the last border
  RowsPartial<kHeadDim> closed;  // before it
};

template <int kHeadDim, KvType kType>
__device__ __forceinline__ void WalkKeys(const PrefillArguments& arguments, const RowTile& rows,
                                         uint32_t shared, int warp,
                                         RowsWarp<kHeadDim, kType>& math) {
  using Shared = PrefillShared<kHeadDim, kType>;
  const int warp_row = warp * kPrefillWarpRows;
  const int first_position = rows.Position(warp_row, arguments.group);
  const int last_position =
      warp_row < rows.num_rows
          ? rows.Position(min(warp_row + kPrefillWarpRows, rows.num_rows) - 1, arguments.group)
          : -1;
  TileLoader<kHeadDim, kType> loader(arguments, rows, shared, math.lane);
  if (warp == 0) {
#pragma unroll
    for (int i = 0; i + 1 < Shared::kStages; ++i) loader.LoadNext();
  }
  int split = 0;
  int next_border = static_cast<int>(AttentionSplitBegin(1));
  RingSlot slot;
  for (int key = 0; key < rows.num_keys; key += kKeyTile) {
    const int num_keys = min(rows.num_keys - key, static_cast<int>(kKeyTile));
    const uint32_t tile = shared + slot.stage * Shared::kTileBytes;
    const uint32_t full = shared + Shared::kBarriers + 8 * slot.stage;
    ptx::WaitBarrier(full, slot.phase);
    float scores[8][4];
    const bool any = key <= last_position;
    if (any) math.Score(tile, scores);
    if (warp == 0) loader.LoadNext();
    if (any) {
      if (key + kKeyTile - 1 > first_position) MaskScores(key, math.positions, math.lane, scores);
      math.Attend(scores, arguments.exponent_scale, tile, num_keys);
    }
    // Every reader arrives itself. So a race checker sees that the next copy comes after these
    // reads.
    ptx::Arrive(full + 8 * Shared::kStages);
    slot.Advance(Shared::kStages);
    if (key + kKeyTile == next_border || key + kKeyTile >= rows.num_keys) {
      math.closed.Fold(arguments.exponent_scale, math.open);
      ++split;
      next_border = static_cast<int>(AttentionSplitBegin(split + 1));
    }
  }
}

template <int kHeadDim, KvType kType>
__global__ __launch_bounds__(kPrefillThreads,
                             1) void PagedPrefillKernel(const PrefillArguments arguments) {
  using Shared = PrefillShared<kHeadDim, kType>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t shared_address = ptx::SharedAddress(shared);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shared::kStages; ++stage) {
      ptx::InitBarrier(shared_address + Shared::kBarriers + 8 * stage, 1);
      ptx::InitBarrier(shared_address + Shared::kBarriers + 8 * (Shared::kStages + stage),
                       32 * kNumWarps);
    }
    ptx::FenceBarrierInit();
  }
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const RowTile rows = FindRows<kPrefillBlockRows>(arguments, blockIdx.x);
  LoadQueries<kHeadDim>(arguments, rows, shared + Shared::kQueries, [](int query_row, int chunk) {
    return query_row / kPrefillWarpRows * kPrefillWarpRows * (kHeadDim / kKvChunkElements) +
           DeviceKvChunk(query_row % kPrefillWarpRows, chunk, kHeadDim);
  });
  __syncthreads();

  const int warp = threadIdx.x / 32;
  RowsWarp<kHeadDim, kType> math;
  math.lane = threadIdx.x % 32;
  int row[2];
  for (int half = 0; half < 2; ++half) {
    row[half] = warp * kPrefillWarpRows + math.lane / 4 + 8 * half;
    math.positions[half] =
        row[half] < rows.num_rows ? rows.Position(row[half], arguments.group) : -1;
  }
  math.Begin(shared_address + Shared::kQueries + warp * kPrefillWarpRows * kHeadDim * 2);
  WalkKeys(arguments, rows, shared_address, warp, math);
  for (int half = 0; half < 2; ++half) {
    if (row[half] >= rows.num_rows) continue;
    math.closed.Write(half, math.lane,
                      arguments.params.output +
                          RowOffset(arguments, rows, row[half], arguments.params.output_stride));
  }
}

template <int kHeadDim, KvType kType>
absl::Status LaunchPrefill(const CudaStream& stream, const PagedPrefillAttentionParams& params) {
  if constexpr (kHeadDim == 64 || kHeadDim == 128 || kHeadDim == 256) {
    return LaunchWarpgroupPrefill(stream, params);
  } else {
    const PrefillArguments arguments = MakePrefillArguments(params);
    return LaunchPrefillKernel(stream, PagedPrefillKernel<kHeadDim, kType>, arguments,
                               {.num_threads = kPrefillThreads,
                                .num_blocks = arguments.num_items,
                                .shared_bytes = PrefillShared<kHeadDim, kType>::kBytes});
  }
}

}  // namespace

absl::Status LaunchPagedPrefill(const CudaStream& stream,
                                const PagedPrefillAttentionParams& params) {
  absl::Status status;
  ForKv(params.kv, [&](auto head_dim, auto type) {
    status.Update(LaunchPrefill<head_dim(), type()>(stream, params));
  });
  return status;
}

}  // namespace lockstep::kernels
