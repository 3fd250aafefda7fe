#pragma once

#include "kernels/attention/decode_block.cuh"
#include "kernels/attention/decode_runs.h"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/memory.cuh"

// How a block of the decode kernel comes by its work: the plan of the launch, which every block
// makes for itself, the items of its run, and the warp that fetches their keys and values.
namespace lockstep::kernels {

// The cuts of this launch, as every thread of a block sees them once CountRuns is done.
template <int kHeadDim>
__device__ __forceinline__ DecodeRuns Runs(const DecodeArguments& arguments,
                                           const DecodeBlock<kHeadDim>& block) {
  const int num_rows = static_cast<int>(arguments.params.num_rows);
  const int* const first_tiles = block.WorkTable();
  const int* const plan = first_tiles + num_rows + 1;
  return DecodeRuns(first_tiles, num_rows, {.num_runs = plan[0], .slack_tiles = plan[1]});
}

// Fills num_keys, the tiles of the rows before, and the plan behind them; by all threads.
template <int kHeadDim>
__device__ __forceinline__ void CountRuns(const DecodeArguments& arguments,
                                          const DecodeBlock<kHeadDim>& block) {
  const int num_rows = static_cast<int>(arguments.params.num_rows);
  int* const first_tiles = block.WorkTable();
  for (int row = threadIdx.x; row < num_rows; row += kDecodeThreads) {
    const uint32_t position = arguments.params.positions[row];
    const int keys = position == kNoPosition ? 0 : static_cast<int>(position) + 1;
    block.NumKeys()[row] = keys;
    first_tiles[row] = (keys + static_cast<int>(kKeyTile) - 1) / static_cast<int>(kKeyTile);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    int num_filled = 0;
    for (int base = 0; base < num_rows; base += 32) {
      const bool filled = base + lane < num_rows && first_tiles[base + lane] != 0;
      num_filled += __popc(__ballot_sync(0xFFFFFFFFu, filled));
    }
    SumBefore(first_tiles, num_rows, lane);
    __syncwarp();
    const int num_tiles = first_tiles[num_rows];
    const int max_runs =
        static_cast<int>(gridDim.x) / static_cast<int>(arguments.params.kv.num_kv_heads);
    const DecodePlan whole = WholeRowPlan(max(num_filled, 1), max_runs);
    const int max_tiles = MaxWholeRowTiles(num_tiles, max_runs);
    // Otherwise one run at least is too long, and nobody need look for it.
    bool fits = num_tiles <= whole.num_runs * max_tiles;
    if (fits) {
      const DecodeRuns runs(first_tiles, num_rows, whole);
      for (int run = lane; run < whole.num_runs; run += 32) {
        fits &= runs.Tiles(runs.Cut(run + 1)) - runs.Tiles(runs.Cut(run)) <= max_tiles;
      }
      fits = __all_sync(0xFFFFFFFFu, fits);
    }
    const DecodePlan plan = fits ? whole : CutRowPlan(num_tiles, max_runs);
    if (lane == 0) {
      first_tiles[num_rows + 1] = plan.num_runs;
      first_tiles[num_rows + 2] = plan.slack_tiles;
    }
  }
  __syncthreads();
}

// One split of a run as the work of a block.
template <int kHeadDim>
__device__ __forceinline__ DecodeItem MakeItem(const DecodeArguments& arguments,
                                               const DecodeBlock<kHeadDim>& block,
                                               const DecodeSplit& split, int kv_head) {
  if (split.num_parts == 0) return {};
  const int num_kv_heads = static_cast<int>(arguments.params.kv.num_kv_heads);
  const int row_slot = split.row * arguments.max_splits * num_kv_heads + kv_head;
  const int part = max(split.split, split.first_splits - 1);
  return {.row = split.row,
          .kv_head = kv_head,
          .num_parts = split.num_parts,
          .first_slot = row_slot + (split.first_splits - 1) * num_kv_heads,
          .slot = row_slot + part * num_kv_heads,
          .key_begin = FirstTileOfSplit(split.split) * static_cast<int>(kKeyTile),
          .key_end = min(FirstTileOfSplit(split.split + 1) * static_cast<int>(kKeyTile),
                         block.NumKeys()[split.row]),
          .opens = split.opens,
          .closes = split.closes};
}

// The warp that copies keys and values, tile by tile, and the queries of a part with its first.
// What earlier steps wrote it requests before the wait for the kernel before this one.
template <int kHeadDim>
class RingFiller {
 public:
  __device__ RingFiller(const DecodeArguments& arguments, const DecodeBlock<kHeadDim>& block,
                        int lane)
      : arguments_(arguments), block_(block), lane_(lane) {}

  __device__ void Fill() {
    DecodeRunWalk walk(Runs(arguments_, block_), static_cast<int>(blockIdx.x) / NumKvHeads());
    DecodeItem work = Item(walk);
    BlockId pages = LoadPages(work, 0);
    const int num_early = FillEarly(walk, work, pages);
    ptx::WaitForPredecessor();
    int num_tiles = 0;
    while (work.num_parts != 0) {
      walk.Advance();
      const DecodeItem next = Item(walk);
      const int num_pages = NumPages(work);
      for (int first = 0; first < num_pages; first += 32) {
        // What is needed next is on its way while these are copied.
        const BlockId further =
            first + 32 < num_pages ? LoadPages(work, first + 32) : LoadPages(next, 0);
        const int end = min(first + 32, num_pages);
        for (int page = first; page < end; page += kKeyTilePages, ++num_tiles) {
          if (num_tiles >= num_early) CopyTile(work, page, end, pages);
          if (work.opens && page == 0) CopyQueries(work);
          slot_.Advance(arguments_.num_stages);
        }
        pages = further;
      }
      work = next;
    }
    ptx::WaitBarrier(block_.EmptyBarrier(slot_.stage), slot_.phase ^ 1);
    if (lane_ != 0) return;
    block_.Work(slot_.stage) = {};
    ptx::Arrive(block_.FullBarrier(slot_.stage));
  }

 private:
  __device__ __forceinline__ int NumKvHeads() const {
    return static_cast<int>(arguments_.params.kv.num_kv_heads);
  }
  __device__ __forceinline__ DecodeItem Item(const DecodeRunWalk& walk) const {
    return MakeItem(arguments_, block_, walk.Split(), static_cast<int>(blockIdx.x) % NumKvHeads());
  }

  // Before the wait, fills the ring as far as keys and values are from earlier steps: up to the
  // first tile with a row's last key, which the kernel before this one writes. The queries, too,
  // are missing. Returns how many tiles these are; `work` is the first item, with its first pages.
  __device__ int FillEarly(DecodeRunWalk walk, DecodeItem work, BlockId pages) {
    int num_tiles = 0;
    for (bool fills = true; fills && work.num_parts != 0;) {
      walk.Advance();
      const DecodeItem next = Item(walk);
      const BlockId next_pages = LoadPages(next, 0);
      const int num_pages = min(NumPages(work), 32);
      for (int page = 0; fills && page < num_pages; page += kKeyTilePages) {
        const int tile_end =
            work.key_begin + (page + kKeyTilePages) * static_cast<int>(kKvBlockTokens);
        fills = num_tiles < arguments_.num_stages && tile_end < block_.NumKeys()[work.row];
        if (!fills) break;
        CopyTile(work, page, num_pages, pages);
        slot_.Advance(arguments_.num_stages);
        ++num_tiles;
      }
      work = next;
      pages = next_pages;
    }
    slot_ = {};
    return num_tiles;
  }

  __device__ __forceinline__ static int NumPages(const DecodeItem& work) {
    return (work.key_end - work.key_begin + static_cast<int>(kKvBlockTokens) - 1) /
           static_cast<int>(kKvBlockTokens);
  }

  // This lane's of the 32 pages of an item from `first` on.
  __device__ __forceinline__ BlockId LoadPages(const DecodeItem& work, int first) const {
    const PagedDecodeAttentionParams& params = arguments_.params;
    if (first + lane_ >= NumPages(work)) return 0;
    const int64_t table =
        params.block_table_rows == nullptr ? work.row : params.block_table_rows[work.row];
    return params.block_tables[table * params.block_table_stride + work.key_begin / kKvBlockTokens +
                               first + lane_];
  }

  // The keys and values of the item's pages `page` .. , up to page `end`, and how many bytes the
  // stage waits for, queries included. Lane i holds page i modulo 32 of `pages`.
  __device__ __forceinline__ void CopyTile(const DecodeItem& work, int page, int end,
                                           BlockId pages) {
    constexpr int kPageBytes = KvTile<kHeadDim>::kPageBytes;
    const PagedDecodeAttentionParams& params = arguments_.params;
    const BlockId source = __shfl_sync(0xFFFFFFFFu, pages, (page + lane_) % 32);
    const int tile_pages = min(end - page, kKeyTilePages);
    ptx::WaitBarrier(block_.EmptyBarrier(slot_.stage), slot_.phase ^ 1);
    const uint32_t full = block_.FullBarrier(slot_.stage);
    if (lane_ == 0) {
      block_.Work(slot_.stage) = work;
      const int query_bytes = work.opens && page == 0 ? block_.layout.query_bytes : 0;
      ptx::ArriveExpectBytes(full, tile_pages * kPageBytes + query_bytes);
    }
    __syncwarp();
    if (lane_ < tile_pages) {
      ptx::CopyBulk(block_.Tile(slot_.stage) + lane_ * kPageBytes,
                    DeviceKeys(params.kv, source, work.kv_head), kPageBytes, full);
    }
  }

  // Those of the part that begins with this stage's tile.
  __device__ __forceinline__ void CopyQueries(const DecodeItem& work) {
    const PagedDecodeAttentionParams& params = arguments_.params;
    if (lane_ != 0) return;
    ptx::CopyBulk(
        block_.Query(slot_.stage),
        params.query + work.row * params.query_stride + work.kv_head * arguments_.group * kHeadDim,
        block_.layout.query_bytes, block_.FullBarrier(slot_.stage));
  }

  const DecodeArguments& arguments_;
  const DecodeBlock<kHeadDim>& block_;
  int lane_;
  RingSlot slot_;
};

}  // namespace lockstep::kernels
