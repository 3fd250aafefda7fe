#pragma once

#include <cstdint>

#include "kernels/attention/prefill/prefill_rows.cuh"

// A block of the warpgroup prefill kernel: its threads, registers and shared memory, and how it
// takes its work.
namespace lockstep::kernels {

inline constexpr int kGroupThreads = 128;
inline constexpr int kGroupRows = 64;  // of a warpgroup that computes
inline constexpr int kCopyWarps = kGroupThreads / 32;
inline constexpr int kPanelDims = 64;
inline constexpr int kPanelSteps = kPanelDims / 16;
inline constexpr int kPanelPageBytes = kKvBlockTokens * kPanelDims * 2;
inline constexpr int kPanelKeyBytes = kKeyTilePages * kPanelPageBytes;  // of the keys of a tile
inline constexpr int kPanelQueryBytes = kGroupRows * kPanelDims * 2;    // of a warpgroup's queries
inline constexpr int kDescriptorUnit = 16;  // bytes: the unit of addresses in matrix descriptors
static_assert(kCopyWarps == kKeyTilePages);
static_assert(kGroupRows <= kFirstSplitZone.split_keys);

// A block with `kGroups` warpgroups that compute: its threads, registers and shared memory. Two
// warpgroups need fewer rows; three hide each other's softmax better.
template <int kHeadDim, int kGroups>
struct PrefillBlock {
  static constexpr int kTileRows = kGroups * kGroupRows;
  static constexpr int kComputeThreads = kGroups * kGroupThreads;
  static constexpr int kComputeWarps = kComputeThreads / 32;
  static constexpr int kThreads = kComputeThreads + kGroupThreads;
  // Registers of a thread. If the roles together needed more than the block has at its start, the
  // computing threads would wait for ever.
  static constexpr int kStartRegisters = kGroups == 2 ? 168 : 128;
  static constexpr int kCopyRegisters = kGroups == 3 ? 32 : kHeadDim == 64 ? 56 : 40;
  static constexpr int kComputeRegisters = kGroups == 3 ? 160 : kHeadDim == 64 ? 224 : 232;
  static_assert(kCopyRegisters + kGroups * kComputeRegisters == (1 + kGroups) * kStartRegisters);

  static constexpr int kPanels = kHeadDim / kPanelDims;
  // Steps of 16 dims whose queries stay in registers: the first panel. Reading all queries from
  // shared memory would need more bytes than it delivers. With 256 dims the output takes these
  // registers, so all queries are read from there.
  static constexpr int kRegisterSteps = kHeadDim == 256 ? 0 : kPanelSteps;
  // Whether the closed partial result stays in registers. That leaves room in shared memory for the
  // queries of two items. And a split can be closed while the scores of the next one are computed.
  static constexpr bool kClosedInRegisters = kHeadDim == 64 || (kHeadDim == 128 && kGroups == 2);
  static constexpr int kQueryStages = kClosedInRegisters ? 2 : 1;
  static constexpr int kKeyStages = kHeadDim == 256 ? 2 : kHeadDim == 128 && kGroups == 3 ? 3 : 4;
  static constexpr int kValueStages = kHeadDim == 256 || (kHeadDim == 128 && kGroups == 3) ? 2 : 4;
  // Whether the warpgroups issue their products in turn. Measured: with 128 dims it gains nothing.
  static constexpr bool kTurns = kHeadDim == 256 || (kHeadDim == 64 && kGroups == 3);
  // Dims of the closed partial results in shared memory, where they are not in registers. The
  // others are in scratch, which fits in the second-level cache.
  static constexpr int kSharedClosedDims =
      kClosedInRegisters ? 0 : kHeadDim - PrefillScratchDims(kHeadDim);
  static constexpr int kTileBytes = static_cast<int>(kKeyTile) * kHeadDim * 2;  // keys, or values

  // Byte offsets in dynamic shared memory.
  static constexpr int kKeys = 0;                                  // [stage][panel][64 keys][64]
  static constexpr int kValues = kKeys + kKeyStages * kTileBytes;  // [stage][page][panel][16][64]
  // [stage][group][panel][64][64]
  static constexpr int kQueries = kValues + kValueStages * kTileBytes;
  static constexpr int kQueryBytes = kGroups * kPanels * kPanelQueryBytes;
  static constexpr int kClosed = kQueries + kQueryStages * kQueryBytes;
  static constexpr int kItem = kClosed + kTileRows * kSharedClosedDims * 4;  // [stage][group]
  static constexpr int kItemBytes = static_cast<int>(sizeof(RowTile) + 15) / 16 * 16;
  static constexpr int kBarriers = kItem + kQueryStages * kGroups * kItemBytes;
  static constexpr int kKeysFull = kBarriers;
  static constexpr int kKeysEmpty = kKeysFull + 8 * kKeyStages;
  static constexpr int kValuesFull = kKeysEmpty + 8 * kKeyStages;
  static constexpr int kValuesEmpty = kValuesFull + 8 * kValueStages;
  static constexpr int kQueriesFull = kValuesEmpty + 8 * kValueStages;
  static constexpr int kQueriesEmpty = kQueriesFull + 8 * kQueryStages * kGroups;
  static constexpr int kTurn = kQueriesEmpty + 8 * kQueryStages * kGroups;
  static constexpr int kBytes = kTurn + 8 * kGroups;
  static_assert(kBytes <= 227 * 1024);

  // Arrivals that complete a warpgroup's queries: one of each copying thread, and one of the thread
  // that wrote the item.
  static constexpr int kQueryArrivals = kGroupThreads + 1;

  // Byte offset of the `chunk`th 8 dims of a query row. They are swizzled like the keys.
  __device__ __forceinline__ static int QueryOffset(int stage, int row, int chunk) {
    const int panel = row / kGroupRows * kPanels + chunk / 8;
    return kQueries + stage * kQueryBytes + panel * kPanelQueryBytes +
           row % kGroupRows * kPanelDims * 2 + (chunk % 8 ^ row % 8) * 16;
  }
  // From kQueriesFull or kQueriesEmpty to the barrier of a warpgroup's queries.
  __device__ __forceinline__ static int QueryBarrier(int stage, int group) {
    return 8 * (stage * kGroups + group);
  }
  // Of the item, a RowTile, that a warpgroup's queries belong to.
  __device__ __forceinline__ static int ItemOffset(int stage, int group) {
    return kItem + (stage * kGroups + group) * kItemBytes;
  }
};

// The items of a block.
struct PrefillItemWalk {
  __device__ __forceinline__ int Next() {
    return static_cast<int>(PrefillItem(round++, blockIdx.x, gridDim.x));
  }

  int round = 0;
};

}  // namespace lockstep::kernels
