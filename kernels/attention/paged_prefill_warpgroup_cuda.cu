#include "kernels/attention/paged_attention_cuda.h"
#include "kernels/attention/prefill_rows.cuh"
#include "kernels/core/ptx/warpgroup_mma_registers.cuh"

// Prefill for head_dims of whole 64-dim panels, in the manner of arXiv 2407.08608: two warpgroups
// of 64 rows each, whose matrix products read keys and values from shared memory. The first warp
// also keeps the ring of key tiles filled. The bits are those of the kernel for other head_dims.
namespace lockstep::kernels {
namespace {

constexpr int kWarps = kPrefillThreads / 32;
constexpr int kGroupRows = 64;  // of a warpgroup
constexpr int kPanelDims = 64;
constexpr int kPanelPageBytes = kKvBlockTokens * kPanelDims * 2;

template <int kHeadDim>
struct WarpgroupShared {
  static constexpr int kStages = 3;
  static constexpr int kPanels = kHeadDim / kPanelDims;
  static constexpr int kPanelBytes = kKeyTilePages * kPanelPageBytes;  // of the keys, or values
  static constexpr int kHalfTileBytes = kPanels * kPanelBytes;
  static constexpr int kTileBytes = 2 * kHalfTileBytes;
  static constexpr int kQueries = kStages * kTileBytes;  // offset
  static constexpr int kBarriers = kQueries + kPrefillBlockRows * kHeadDim * 2;
  static constexpr int kBytes = kBarriers + 2 * kStages * 8;
};

// Where chunk `chunk` (8 dims) of a query row lies: [warpgroup][panel][64 rows][64 dims], swizzled
// as the keys are.
template <int kHeadDim>
__device__ __forceinline__ int QueryChunk(int row, int chunk) {
  const int panel = row / kGroupRows * (kHeadDim / kPanelDims) + chunk / 8;
  return (panel * kGroupRows + row % kGroupRows) * 8 + (chunk % 8 ^ row % 8);
}

// A warp's share of the copies of key tiles into the ring. A tile comes as panels, [K, then
// V][panel][64 keys][64 dims], each from its four pages; a warp issues few copies because they go
// out one by one.
template <int kHeadDim>
struct PanelLoader {
  using Shared = WarpgroupShared<kHeadDim>;
  static constexpr int kWarpCopies = 2 * Shared::kPanels * kKeyTilePages / kWarps;

  __device__ __forceinline__ PanelLoader(const PrefillArguments& arguments, const RowTile& tile,
                                         uint32_t shared, int warp, int lane)
      : kv(arguments.params.kv),
        pages(arguments.params.block_tables +
              tile.chunk.block_table_row * arguments.params.block_table_stride),
        num_pages((tile.num_keys + kKvBlockTokens - 1) / kKvBlockTokens),
        kv_head(tile.kv_head),
        shared(shared),
        announces(warp == 0 && lane == 0),
        copies(lane < kWarpCopies),
        tile_page((warp * kWarpCopies + lane) % kKeyTilePages),
        part((warp * kWarpCopies + lane) / kKeyTilePages) {
    FetchPage();
  }

  __device__ __forceinline__ bool HasPage() const { return copies && page + tile_page < num_pages; }
  __device__ __forceinline__ void FetchPage() {
    if (HasPage()) block = pages[page + tile_page];
  }

  __device__ __forceinline__ void LoadNext() {
    if (page >= num_pages) return;
    const int tile_pages = min(num_pages - page, kKeyTilePages);
    const uint32_t full = shared + Shared::kBarriers + 8 * stage;
    ptx::WaitBarrier(full + 8 * Shared::kStages, phase ^ 1);
    if (announces) ptx::ArriveExpectBytes(full, tile_pages * KvTile<kHeadDim>::kPageBytes);
    if (HasPage()) {
      ptx::CopyBulk(shared + stage * Shared::kTileBytes + part * Shared::kPanelBytes +
                        tile_page * kPanelPageBytes,
                    DeviceKeys(kv, block, kv_head) + part * (kPanelPageBytes / 2), kPanelPageBytes,
                    full);
    }
    __syncwarp();
    page += kKeyTilePages;
    FetchPage();
    if (++stage == Shared::kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  PagedKv kv;
  const BlockId* pages;
  int num_pages;
  int kv_head;
  uint32_t shared;
  bool announces;  // the bytes of the whole tile
  bool copies;
  int tile_page;  // which page of a tile, and which panel of it, this lane copies
  int part;
  int page = 0;
  BlockId block = 0;
  int stage = 0;
  uint32_t phase = 0;
};

// Values of tokens that do not exist become zero: not even a weight of zero makes NaN harmless.
template <int kHeadDim>
__device__ __forceinline__ void ClearMissingValues(unsigned char* values, int num_keys) {
  using Shared = WarpgroupShared<kHeadDim>;
  constexpr int kRowChunks = kPanelDims * 2 / 16;
  const int missing = static_cast<int>(kKeyTile) - num_keys;
  for (int i = threadIdx.x; i < Shared::kPanels * missing * kRowChunks; i += kPrefillThreads) {
    const int panel = i / (missing * kRowChunks);
    const int chunk = i % (missing * kRowChunks);
    *reinterpret_cast<uint4*>(values + panel * Shared::kPanelBytes +
                              (num_keys * kRowChunks + chunk) * 16) = make_uint4(0, 0, 0, 0);
  }
  ptx::FenceAsyncProxy();
  ptx::SyncThreads(1, kPrefillThreads);
}

// A warp's 16 rows of its warpgroup's 64.
template <int kHeadDim>
struct WarpgroupRows {
  using Tile = KvTile<kHeadDim>;
  using Shared = WarpgroupShared<kHeadDim>;

  __device__ __forceinline__ void Begin(uint32_t query_address) {
    queries = query_address;
    open.Clear();
    closed.Clear();
  }

  // scores = queries times the keys of the tile. Both come from shared memory: registers that a
  // product only reads do not always survive the loop (ptxas of CUDA 13.0 reuses them).
  __device__ __forceinline__ void Score(uint32_t tile) {
    ptx::WarpgroupFence();
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
      const uint32_t panel = step / 4 * Shared::kPanelBytes;
      const uint64_t offset = step % 4 * ptx::kDescriptorStepK16;
      ptx::WarpgroupMmaShared(scores, ptx::MatrixDescriptor(queries + panel) + offset,
                              ptx::MatrixDescriptor(tile + panel) + offset, step != 0);
    }
    ptx::WarpgroupCommit();
    ptx::WarpgroupWait<0>();
    ptx::HoldTiles(scores);
  }

  // open += weights times the values of the tile.
  __device__ __forceinline__ void AddValues(uint32_t tile) {
    ptx::WarpgroupFence();
#pragma unroll
    for (int page = 0; page < kKeyTilePages; ++page) {
      const uint64_t values = ptx::TransposedMatrixDescriptor(
          tile + Shared::kHalfTileBytes + page * kPanelPageBytes, Shared::kPanelBytes);
      ptx::WarpgroupMmaRegisters<true>(open.values, weights[page], values, true);
    }
    ptx::WarpgroupCommit();
    ptx::WarpgroupWait<0>();
    ptx::HoldTiles(open.values);
  }

  __device__ __forceinline__ void Softmax(int key, float exponent_scale) {
    if (key + kKeyTile - 1 > min_position) MaskScores(key, positions, lane, scores);
    float rescale[2];
    SoftmaxStep<2>(exponent_scale, scores, open.rows, weights, rescale);
    Rescale(rescale, open.values);
  }

  int lane;
  int positions[2];  // of rows g and g + 8; -1: no such row
  int min_position;  // of the warp's rows
  uint32_t queries;  // in shared memory
  uint32_t weights[kKeyTilePages][4];
  float scores[8][4];
  RowsPartial<kHeadDim> open;    // since the last border
  RowsPartial<kHeadDim> closed;  // before it
};

template <int kHeadDim>
__device__ __forceinline__ void WalkKeys(const PrefillArguments& arguments, const RowTile& rows,
                                         unsigned char* shared, uint32_t shared_address, int warp,
                                         WarpgroupRows<kHeadDim>& math) {
  using Shared = WarpgroupShared<kHeadDim>;
  PanelLoader<kHeadDim> loader(arguments, rows, shared_address, warp, math.lane);
#pragma unroll
  for (int i = 0; i + 1 < Shared::kStages; ++i) loader.LoadNext();
  const int group_row = warp / 4 * kGroupRows;
  const int last_key =
      group_row < rows.num_rows
          ? rows.Position(min(group_row + kGroupRows, rows.num_rows) - 1, arguments.group)
          : -1;
  int split = 0;
  int next_border = static_cast<int>(AttentionSplitBegin(1));
  int stage = 0;
  uint32_t phase = 0;
  for (int key = 0; key < rows.num_keys; key += kKeyTile) {
    const int num_keys = min(rows.num_keys - key, static_cast<int>(kKeyTile));
    const uint32_t tile = shared_address + stage * Shared::kTileBytes;
    const uint32_t full = shared_address + Shared::kBarriers + 8 * stage;
    ptx::WaitBarrier(full, phase);
    if (num_keys < kKeyTile) {
      ClearMissingValues<kHeadDim>(shared + stage * Shared::kTileBytes + Shared::kHalfTileBytes,
                                   num_keys);
    }
    const bool any = key <= last_key;
    if (any) {
      math.Score(tile);
      math.Softmax(key, arguments.exponent_scale);
    }
    // Not while a product is under way: the compiler loses track of its registers at such branches.
    loader.LoadNext();
    if (any) math.AddValues(tile);
    // Every reader arrives itself: a checker of races sees which reads the next copy is behind.
    ptx::Arrive(full + 8 * Shared::kStages);
    if (++stage == Shared::kStages) {
      stage = 0;
      phase ^= 1;
    }
    if (key + kKeyTile == next_border || key + kKeyTile >= rows.num_keys) {
      math.closed.Fold(arguments.exponent_scale, math.open);
      ++split;
      next_border = static_cast<int>(AttentionSplitBegin(split + 1));
    }
  }
}

template <int kHeadDim>
__global__ __launch_bounds__(kPrefillThreads,
                             1) void WarpgroupPrefillKernel(const PrefillArguments arguments) {
  using Shared = WarpgroupShared<kHeadDim>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t shared_address = ptx::SharedAddress(shared);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shared::kStages; ++stage) {
      ptx::InitBarrier(shared_address + Shared::kBarriers + 8 * stage, 1);
      ptx::InitBarrier(shared_address + Shared::kBarriers + 8 * (Shared::kStages + stage),
                       32 * kWarps);
    }
    ptx::FenceBarrierInit();
  }
  ptx::WaitForPredecessor();
  ptx::AllowSuccessor();
  RowTile rows;
  if (!FindRows(arguments, &rows)) return;
  LoadQueries<kHeadDim>(arguments, rows, shared + Shared::kQueries, QueryChunk<kHeadDim>);
  ptx::FenceAsyncProxy();
  __syncthreads();

  // The same for all lanes, and known to be.
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / 32), 0);
  WarpgroupRows<kHeadDim> math;
  math.lane = threadIdx.x % 32;
  int row[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    row[half] = warp * kPrefillWarpRows + math.lane / 4 + 8 * half;
    math.positions[half] =
        row[half] < rows.num_rows ? rows.Position(row[half], arguments.group) : -1;
  }
  math.min_position = warp * kPrefillWarpRows + kPrefillWarpRows <= rows.num_rows
                          ? rows.Position(warp * kPrefillWarpRows, arguments.group)
                          : -1;
  math.Begin(shared_address + Shared::kQueries + warp / 4 * kGroupRows * kHeadDim * 2);
  WalkKeys<kHeadDim>(arguments, rows, shared, shared_address, warp, math);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row[half] >= rows.num_rows) continue;
    math.closed.Write(half, math.lane,
                      arguments.params.output +
                          RowOffset(arguments, rows, row[half], arguments.params.output_stride));
  }
}

template <int kHeadDim>
absl::Status LaunchKernel(const CudaStream& stream, const PagedPrefillAttentionParams& params) {
  return LaunchPrefillKernel(stream, params, WarpgroupPrefillKernel<kHeadDim>,
                             WarpgroupShared<kHeadDim>::kBytes);
}

}  // namespace

absl::Status LaunchWarpgroupPrefill(const CudaStream& stream,
                                    const PagedPrefillAttentionParams& params) {
  return params.kv.head_dim == 64 ? LaunchKernel<64>(stream, params)
                                  : LaunchKernel<128>(stream, params);
}

}  // namespace lockstep::kernels
