#pragma once

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/attention/decode/decode_runs.h"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/memory.cuh"

// How a block of the decode kernel gets its work: one warp walks the items of the block's runs and
// fetches their keys and values.
namespace lockstep::kernels {

// The warp that copies keys and values, tile by tile. The queries of a row come with its first
// tile. Tiles that earlier steps wrote are requested before the wait for the preceding kernel.
template <int kHeadDim>
class RingFiller {
 public:
  __device__ RingFiller(const DecodeArguments& arguments, const DecodeBlock<kHeadDim>& block,
                        int lane)
      : arguments_(arguments),
        block_(block),
        plan_(arguments.params.plan, static_cast<int>(arguments.params.num_rows),
              arguments.max_runs),
        lane_(lane) {}

  __device__ void Fill() {
    DecodeRunWalk walk = plan_.Walk(static_cast<int>(blockIdx.x) / NumKvHeads());
    FillerItem item = Item(walk);
    BlockId pages = LoadPages(item, 0);
    int num_tiles = 0;
    while (item.work.num_rows != 0) {
      walk.Advance();
      const FillerItem next = Item(walk);
      const int num_pages = item.NumPages();
      for (int first = 0; first < num_pages; first += 32) {
        // The next block numbers are on their way while these pages are copied.
        const BlockId further =
            first + 32 < num_pages ? LoadPages(item, first + 32) : LoadPages(next, 0);
        const int end = min(first + 32, num_pages);
        for (int page = first; page < end; page += kKeyTilePages, ++num_tiles) {
          const int tile_end =
              item.work.key_begin + (page + kKeyTilePages) * static_cast<int>(kKvBlockTokens);
          // The preceding kernel writes a row's last key, and the queries.
          if (num_tiles == arguments_.num_stages || tile_end >= item.num_keys) Await();
          CopyTile(item, page, end, pages);
          if (item.HasQueries(page)) {
            if (awaited_) {
              CopyQueries(slot_.stage);
            } else {
              queries_missing_ |= 1u << slot_.stage;
            }
          }
          slot_.Advance(arguments_.num_stages);
        }
        pages = further;
      }
      item = next;
    }
    Await();
    ptx::WaitBarrier(block_.EmptyBarrier(slot_.stage), slot_.phase ^ 1);
    if (lane_ != 0) return;
    block_.Work(slot_.stage).item = {};
    ptx::Arrive(block_.FullBarrier(slot_.stage));
  }

 private:
  struct FillerItem {
    __device__ __forceinline__ int NumPages() const {
      return (work.key_end - work.key_begin + static_cast<int>(kKvBlockTokens) - 1) /
             static_cast<int>(kKvBlockTokens);
    }
    // The queries of several rows are not consecutive, so the math warps fetch them themselves.
    __device__ __forceinline__ bool HasQueries(int page) const {
      return work.enters && work.num_rows == 1 && page == 0;
    }

    DecodeItem work;
    int block_table;
    int num_keys;       // keys of its row, including those after the item
    DecodeItemRow row;  // lane i has the item's row i
  };

  __device__ __forceinline__ int NumKvHeads() const {
    return static_cast<int>(arguments_.params.kv.num_kv_heads);
  }

  __device__ __forceinline__ FillerItem Item(const DecodeRunWalk& walk) const {
    if (walk.AtEnd()) return {};
    const DecodeStrand& strand = walk.Strand();
    FillerItem item = {
        .work = {.num_rows = strand.num_rows,
                 .kv_head = static_cast<int>(blockIdx.x) % NumKvHeads(),
                 .part = walk.Part(),
                 .key_begin = FirstTileOfSplit(walk.Split()) * static_cast<int>(kKeyTile),
                 .key_end = min(FirstTileOfSplit(walk.Split() + 1) * static_cast<int>(kKeyTile),
                                strand.num_keys),
                 .enters = walk.EntersStrand(),
                 .opens = walk.OpensPart(),
                 .closes = walk.ClosesPart()},
        .block_table = strand.block_table,
        .num_keys = strand.num_keys,
        .row = {}};
    if (strand.num_rows == 1) {
      item.row = {static_cast<uint16_t>(strand.row), static_cast<uint16_t>(strand.num_parts)};
    } else if (lane_ < strand.num_rows) {
      const int row = plan_.rows[strand.row + lane_];
      item.row = {static_cast<uint16_t>(row), static_cast<uint16_t>(plan_.num_parts[row])};
    }
    return item;
  }

  // Waits for the preceding kernel, once. Tiles that were requested before get their queries now.
  __device__ __forceinline__ void Await() {
    if (awaited_) return;
    ptx::WaitForPredecessor();
    awaited_ = true;
    for (int stage = 0; stage < arguments_.num_stages; ++stage) {
      if ((queries_missing_ >> stage & 1) != 0) CopyQueries(stage);
    }
  }

  // Reads the blocks of 32 pages of an item from `first` on, one in each lane; 0 after the item's
  // end.
  __device__ __forceinline__ BlockId LoadPages(const FillerItem& item, int first) const {
    if (first + lane_ >= item.NumPages()) return 0;
    return arguments_.params.block_tables[item.block_table * arguments_.params.block_table_stride +
                                          item.work.key_begin / kKvBlockTokens + first + lane_];
  }

  // Copies a tile: the keys and values of the item's pages from `page` on, up to `end`. Tells the
  // stage how many bytes to wait for, including queries. Lane i holds page i modulo 32 of `pages`.
  __device__ __forceinline__ void CopyTile(const FillerItem& item, int page, int end,
                                           BlockId pages) {
    constexpr int kPageBytes = KvTile<kHeadDim>::kPageBytes;
    const PagedDecodeAttentionParams& params = arguments_.params;
    const BlockId source = __shfl_sync(0xFFFFFFFFu, pages, (page + lane_) % 32);
    const int tile_pages = min(end - page, kKeyTilePages);
    ptx::WaitBarrier(block_.EmptyBarrier(slot_.stage), slot_.phase ^ 1);
    const uint32_t full = block_.FullBarrier(slot_.stage);
    if (page == 0) {  // the math warps read the work of an item's first tile only
      DecodeWork& work = block_.Work(slot_.stage);
      if (lane_ < item.work.num_rows) work.rows[lane_] = item.row;
      if (lane_ == 0) work.item = item.work;
      __syncwarp();
    }
    if (lane_ == 0) {
      const int query_bytes = item.HasQueries(page) ? block_.layout.query_bytes : 0;
      ptx::ArriveExpectBytes(full, tile_pages * kPageBytes + query_bytes);
    }
    __syncwarp();
    if (lane_ < tile_pages) {
      ptx::CopyBulk(block_.Tile(slot_.stage) + lane_ * kPageBytes,
                    DeviceKeys(params.kv, source, item.work.kv_head), kPageBytes, full);
    }
  }

  // Copies the queries of the row whose first tile is in this stage.
  __device__ __forceinline__ void CopyQueries(int stage) {
    const PagedDecodeAttentionParams& params = arguments_.params;
    if (lane_ != 0) return;
    const DecodeWork& work = block_.Work(stage);
    ptx::CopyBulk(block_.Query(stage),
                  params.query + work.rows[0].row * params.query_stride +
                      work.item.kv_head * arguments_.group * kHeadDim,
                  block_.layout.query_bytes, block_.FullBarrier(stage));
  }

  const DecodeArguments& arguments_;
  const DecodeBlock<kHeadDim>& block_;
  DecodePlanMemory plan_;
  int lane_;
  RingSlot slot_;
  bool awaited_ = false;          // whether the preceding kernel was waited for
  uint32_t queries_missing_ = 0;  // bit i: stage i
};

}  // namespace lockstep::kernels
