#pragma once

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/attention/decode/decode_run_walk.h"
#include "kernels/attention/decode/decode_runs.h"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/memory.cuh"

// How a block of the decode kernel gets its work: one warp walks the items of the block's runs and
// fetches their keys and values.
namespace lockstep::kernels {

// The warp that copies keys and values, tile by tile. The queries of a row come with its first
// tile. Tiles that earlier steps wrote are requested before the wait for the preceding kernel.
template <int kHeadDim, KvType kType>
class RingFiller {
 public:
  // Reads `start`, so that Fill has all it needs for its first tiles.
  __device__ __forceinline__ RingFiller(const DecodeArguments& arguments,
                                        const DecodeBlock<kHeadDim, kType>& block,
                                        const DecodePlanMemory& plan, const DecodeStart& start,
                                        int lane)
      : arguments_(arguments),
        block_(block),
        plan_(plan),
        lane_(lane),
        first_pages_(start.pages[lane]),
        walk_(start.walk) {}

  __device__ __forceinline__ void Fill() {
    DecodeRunWalk walk = walk_;
    BlockId pages = first_pages_;
    FillerItem item = Item(walk);
    int num_tiles = 0;
    while (item.work.num_rows != 0) {
      const int num_pages = item.NumPages();
      FillerItem next;
      for (int first = 0; first < num_pages; first += kPagesOfWarp) {
        const int end = min(first + kPagesOfWarp, num_pages);
        BlockId further = 0;
        for (int page = first; page < end; page += kKeyTilePages, ++num_tiles) {
          const int tile_end =
              item.work.key_begin + (page + kKeyTilePages) * static_cast<int>(kKvBlockTokens);
          // The preceding kernel writes a row's last keys, and the queries.
          const int num_old_keys = item.num_keys - static_cast<int>(arguments_.params.num_new_keys);
          if (num_tiles == arguments_.num_stages || tile_end > num_old_keys) Await();
          CopyTile(item, page, end, pages);
          if (item.HasQueries(page)) {
            if (awaited_) {
              CopyQueries(slot_.stage);
            } else {
              queries_missing_ |= 1u << slot_.stage;
            }
          }
          slot_.Advance(arguments_.num_stages);
          // The next block numbers come while these tiles are copied. They are not asked for before
          // the second tile, so that the block's first tiles are under way sooner.
          const bool is_last = page + kKeyTilePages >= end;
          if (page == first + kKeyTilePages || (page == first && is_last)) {
            if (end < num_pages) {
              further = LoadPages(item, end);
            } else {
              walk.Advance();
              next = Item(walk);
              further = LoadPages(next, 0);
            }
          }
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
    __device__ __forceinline__ SplitKeys Keys() const { return {work.key_begin, work.key_end}; }
    __device__ __forceinline__ int NumPages() const { return Keys().NumPages(); }
    // The queries of several rows are not consecutive, so the math warps fetch them themselves.
    __device__ __forceinline__ bool HasQueries(int page) const {
      return work.enters && work.num_rows == 1 && page == 0;
    }

    DecodeItem work;
    int block_table;
    int num_keys;       // keys of its row, including those after the item
    DecodeItemRow row;  // lane i has the item's row i
  };

  __device__ __forceinline__ FillerItem Item(const DecodeRunWalk& walk) const {
    if (walk.AtEnd()) return {};
    const DecodeStrand& strand = walk.Strand();
    const SplitKeys keys = KeysOf(walk);
    FillerItem item = {.work = {.num_rows = strand.num_rows,
                                .kv_head = block_.KvHead(),
                                .part = walk.Part(),
                                .key_begin = keys.begin,
                                .key_end = keys.end,
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
    if (arguments_.params.num_rows > kFewDecodeRows) ptx::AllowSuccessor();
    ptx::WaitForPredecessor();
    awaited_ = true;
    for (int stage = 0; stage < arguments_.num_stages; ++stage) {
      if ((queries_missing_ >> stage & 1) != 0) CopyQueries(stage);
    }
  }

  // Reads the blocks of kPagesOfWarp pages of an item from `first` on, one in each lane; 0 after
  // the item's end.
  __device__ __forceinline__ BlockId LoadPages(const FillerItem& item, int first) const {
    if (first + lane_ >= item.NumPages()) return 0;
    return arguments_.params.block_tables[item.block_table * arguments_.params.block_table_stride +
                                          item.work.key_begin / kKvBlockTokens + first + lane_];
  }

  // Copies a tile: the keys and values of the item's pages from `page` on, up to `end`. Tells the
  // stage how many bytes to wait for, including queries. Lane i holds page i modulo kPagesOfWarp of
  // `pages`.
  __device__ __forceinline__ void CopyTile(const FillerItem& item, int page, int end,
                                           BlockId pages) {
    constexpr int kPageBytes = KvTile<kHeadDim, kType>::kPageBytes;
    const PagedDecodeAttentionParams& params = arguments_.params;
    const BlockId source = __shfl_sync(0xFFFFFFFFu, pages, (page + lane_) % kPagesOfWarp);
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
                    PageInPool<kType>(params.kv, source, item.work.kv_head), kPageBytes, full);
    }
  }

  // Copies the queries of the row that begins in this stage.
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
  const DecodeBlock<kHeadDim, kType>& block_;
  const DecodePlanMemory& plan_;
  int lane_;
  BlockId first_pages_;
  DecodeRunWalk walk_;  // from its begin
  RingSlot slot_;
  bool awaited_ = false;          // whether the preceding kernel was waited for
  uint32_t queries_missing_ = 0;  // bit i: stage i
};

}  // namespace lockstep::kernels
