#pragma once

#include <cstdint>

#include "kernels/attention/prefill/convert_page.cuh"
#include "kernels/attention/prefill/prefill_block.cuh"

// The warpgroup of a prefill block that copies queries, keys and values to shared memory. Codes
// become bf16 on the way.
namespace lockstep::kernels {

// One warp of that warpgroup. It copies page `warp` of every tile, and its share of the queries.
template <int kHeadDim, int kGroups, KvType kType>
class PrefillCopier {
 public:
  using B = PrefillBlock<kHeadDim, kGroups>;
  static constexpr bool kConverts = kType == KvType::kFp8;
  static constexpr int kPageBytes = B::kPanels * kPanelPageBytes;  // of keys, or of values

  __device__ __forceinline__ PrefillCopier(const PrefillArguments& arguments, unsigned char* shared,
                                           int warp, int lane)
      : arguments_(arguments),
        shared_(shared),
        address_(ptx::SharedAddress(shared)),
        warp_(warp),
        lane_(lane) {}

  __device__ __forceinline__ void Run() {
    PrefillItemWalk walk;
    for (int item = walk.Next(); item < arguments_.num_items; item = walk.Next()) {
      const RowTile rows = FindRows<B::kTileRows>(arguments_, item);
      pages_ = arguments_.params.block_tables +
               rows.chunk.block_table_row * arguments_.params.block_table_stride;
      num_keys_ = rows.num_keys;
      kv_head_ = rows.kv_head;
      const int num_tiles = (num_keys_ + kKeyTile - 1) / kKeyTile;
      BlockId block = FetchBlock(0);
      // Keys come first. Where queries have one stage, the place of keys is free before theirs.
      CopyKeys(0, block);
      for (int group = 0; group < kGroups; ++group) CopyQueries(rows, group);
      queries_.Advance(B::kQueryStages);
      for (int tile = 1; tile < num_tiles; ++tile) {
        const BlockId next = FetchBlock(tile);
        CopyKeys(tile, next);
        CopyValues(tile - 1, block);
        block = next;
      }
      CopyValues(num_tiles - 1, block);
    }
  }

 private:
  // Each warpgroup's queries have barriers of their own. So the first warpgroup to end an item
  // begins the next.
  __device__ __forceinline__ void CopyQueries(const RowTile& rows, int group) {
    constexpr int kRowChunks = kHeadDim * 2 / 16;
    const int thread = 32 * warp_ + lane_;
    const int barrier = B::QueryBarrier(queries_.stage, group);
    const uint32_t full = address_ + B::kQueriesFull + barrier;
    ptx::WaitBarrier(address_ + B::kQueriesEmpty + barrier, queries_.phase ^ 1);
    const int chunk = thread % kRowChunks;
    const BFloat16* const queries = arguments_.params.query + chunk * kKvChunkElements;
    const int end = min(rows.num_rows, (group + 1) * kGroupRows);
    for (int row = group * kGroupRows + thread / kRowChunks; row < end;
         row += kGroupThreads / kRowChunks) {
      ptx::CopyAsync16(address_ + B::QueryOffset(queries_.stage, row, chunk),
                       queries + RowOffset(arguments_, rows, row, arguments_.params.query_stride));
    }
    ptx::ArriveAfterCopies(full);
    if (thread == 0) {
      *reinterpret_cast<RowTile*>(shared_ + B::ItemOffset(queries_.stage, group)) = rows;
      ptx::Arrive(full);
    }
  }

  // The KV block of this warp's page of a tile. The block numbers of 32 tiles are read at once.
  __device__ __forceinline__ BlockId FetchBlock(int tile) {
    if (tile % 32 == 0) {
      const int page = (tile + lane_) * kKeyTilePages + warp_;
      blocks_ = page * kKvBlockTokens < num_keys_ ? pages_[page] : 0;
    }
    return __shfl_sync(0xFFFFFFFFu, blocks_, tile % 32);
  }

  __device__ __forceinline__ int PageKeys(int tile) const {
    return num_keys_ - (tile * kKeyTilePages + warp_) * kKvBlockTokens;
  }

  // Keys of tokens that do not exist may be anything: the mask covers them.
  __device__ __forceinline__ void CopyKeys(int tile, BlockId block) {
    const uint32_t full = address_ + B::kKeysFull + 8 * keys_.stage;
    const uint32_t target =
        address_ + B::kKeys + keys_.stage * B::kTileBytes + warp_ * kPanelPageBytes;
    ptx::WaitBarrier(address_ + B::kKeysEmpty + 8 * keys_.stage, keys_.phase ^ 1);
    if constexpr (kConverts) {
      const PagedKv& kv = arguments_.params.kv;
      if (PageKeys(tile) > 0) {
        Convert({DeviceKeyCodes(kv, block, kv_head_), DeviceKeyScales(kv, block, kv_head_),
                 kKvBlockTokens},
                target, kKeyTilePages * kPanelPageBytes);
      }
      Publish(full);
    } else if (lane_ == 0) {
      if (PageKeys(tile) > 0) {
        const BFloat16* const keys = DeviceKeys(arguments_.params.kv, block, kv_head_);
        ptx::ArriveExpectBytes(full, kPageBytes);
#pragma unroll
        for (int panel = 0; panel < B::kPanels; ++panel) {
          ptx::CopyBulk(target + panel * kKeyTilePages * kPanelPageBytes,
                        keys + panel * (kPanelPageBytes / 2), kPanelPageBytes, full);
        }
      } else {
        ptx::Arrive(full);
      }
    }
    keys_.Advance(B::kKeyStages);
  }

  __device__ __forceinline__ void CopyValues(int tile, BlockId block) {
    const uint32_t full = address_ + B::kValuesFull + 8 * values_.stage;
    const int target = B::kValues + values_.stage * B::kTileBytes + warp_ * kPageBytes;
    const PagedKv& kv = arguments_.params.kv;
    const int page_keys = PageKeys(tile);
    ptx::WaitBarrier(address_ + B::kValuesEmpty + 8 * values_.stage, values_.phase ^ 1);
    if constexpr (kConverts) {
      Convert({DeviceValueCodes(kv, block, kv_head_), DeviceValueScales(kv, block, kv_head_),
               page_keys},
              address_ + target, kPanelPageBytes);
      Publish(full);
    } else if (page_keys >= kKvBlockTokens) {
      if (lane_ == 0) {
        ptx::ArriveExpectBytes(full, kPageBytes);
        ptx::CopyBulk(address_ + target, DeviceValues(kv, block, kv_head_), kPageBytes, full);
      }
    } else {
      CopyPartOfPage(target, DeviceValues(kv, block, kv_head_), max(page_keys, 0), full);
    }
    values_.Advance(B::kValueStages);
  }

  // Values of tokens that do not exist become zero, because even a weight of zero times NaN is NaN.
  __device__ __forceinline__ void CopyPartOfPage(int target, const BFloat16* values, int num_keys,
                                                 uint32_t full) {
    constexpr int kRowBytes = kPanelDims * 2;
    constexpr int kRowChunks = kRowBytes / 16;
    const int missing_chunks = (kKvBlockTokens - num_keys) * kRowChunks;
    for (int i = lane_; i < B::kPanels * missing_chunks; i += 32) {
      const int panel = i / missing_chunks;
      *reinterpret_cast<uint4*>(shared_ + target + panel * kPanelPageBytes + num_keys * kRowBytes +
                                i % missing_chunks * 16) = make_uint4(0, 0, 0, 0);
    }
    ptx::FenceAsyncProxy();
    __syncwarp();
    if (lane_ != 0) return;
    if (num_keys == 0) return ptx::Arrive(full);
    ptx::ArriveExpectBytes(full, B::kPanels * num_keys * kRowBytes);
#pragma unroll
    for (int panel = 0; panel < B::kPanels; ++panel) {
      ptx::CopyBulk(address_ + target + panel * kPanelPageBytes,
                    values + panel * (kPanelPageBytes / 2), num_keys * kRowBytes, full);
    }
  }

  __device__ __forceinline__ void Convert(const PageCodes& page, uint32_t target,
                                          int panel_stride) const {
    // As many at once as the registers hold.
    constexpr int kMostAtOnce = B::kCopyRegisters < 40 ? 2 : 4;
    ConvertPage<kHeadDim, kMostAtOnce>(page, target, panel_stride, lane_);
  }

  // Tells the readers that this warp has written its page of a tile.
  __device__ __forceinline__ void Publish(uint32_t full) {
    ptx::FenceAsyncProxy();  // matrix products read what ordinary stores wrote
    __syncwarp();
    if (lane_ == 0) ptx::Arrive(full);
  }

  const PrefillArguments& arguments_;
  unsigned char* const shared_;
  const uint32_t address_;
  const int warp_;
  const int lane_;
  const BlockId* pages_ = nullptr;
  int num_keys_ = 0;
  int kv_head_ = 0;
  BlockId blocks_ = 0;  // blocks of this warp's pages of 32 tiles, one in each lane
  RingSlot queries_;
  RingSlot keys_;
  RingSlot values_;
};

}  // namespace lockstep::kernels
