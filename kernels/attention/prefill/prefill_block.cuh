#pragma once

#include <cstdint>

#include "kernels/attention/prefill/prefill_rows.cuh"

// The blocks of the warpgroup prefill kernel: what they have, and how they take their work.
namespace lockstep::kernels {

inline constexpr int kGroupThreads = 128;
inline constexpr int kGroupRows = 64;  // of a warpgroup that computes
inline constexpr int kCopyWarps = kGroupThreads / 32;
inline constexpr int kPanelDims = 64;
inline constexpr int kPanelSteps = kPanelDims / 16;
inline constexpr int kPanelPageBytes = kKvBlockTokens * kPanelDims * 2;
inline constexpr int kPanelKeyBytes = kKeyTilePages * kPanelPageBytes;  // of the keys of a tile
inline constexpr int kPanelQueryBytes = kGroupRows * kPanelDims * 2;    // of a warpgroup's queries
inline constexpr int kDescriptorUnit = 16;  // bytes: how descriptors of matrices count addresses
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
  // Registers of a thread. Those that compute would wait for ever for more than the block has at
  // its start.
  static constexpr int kStartRegisters = kGroups == 2 ? 168 : 128;
  static constexpr int kCopyRegisters = kGroups == 2 ? 56 : 32;
  static constexpr int kComputeRegisters = kGroups == 2 ? 224 : 160;
  static_assert(kCopyRegisters + kGroups * kComputeRegisters == (1 + kGroups) * kStartRegisters);

  static constexpr int kPanels = kHeadDim / kPanelDims;
  // Queries that stay in registers. Three warpgroups have none left for the second panel; reading
  // all from shared memory would take more bytes than it delivers.
  static constexpr int kRegisterSteps = (kGroups == 2 ? kPanels : 1) * kPanelSteps;
  static constexpr int kKeyStages = kHeadDim == 128 && kGroups == 3 ? 3 : 4;
  static constexpr int kValueStages = kHeadDim == 128 && kGroups == 3 ? 2 : 4;
  static constexpr int kTileBytes = static_cast<int>(kKeyTile) * kHeadDim * 2;  // keys, or values

  // Byte offsets in dynamic shared memory.
  static constexpr int kKeys = 0;                                  // [stage][panel][64 keys][64]
  static constexpr int kValues = kKeys + kKeyStages * kTileBytes;  // [stage][page][panel][16][64]
  static constexpr int kQueries = kValues + kValueStages * kTileBytes;  // [group][panel][64][64]
  static constexpr int kClosed = kQueries + kGroups * kPanels * kPanelQueryBytes;
  static constexpr int kItem = kClosed + kTileRows * kHeadDim * 4;
  static constexpr int kBarriers = kItem + static_cast<int>(sizeof(RowTile) + 15) / 16 * 16;
  static constexpr int kKeysFull = kBarriers;
  static constexpr int kKeysEmpty = kKeysFull + 8 * kKeyStages;
  static constexpr int kValuesFull = kKeysEmpty + 8 * kKeyStages;
  static constexpr int kValuesEmpty = kValuesFull + 8 * kValueStages;
  static constexpr int kQueriesFull = kValuesEmpty + 8 * kValueStages;
  static constexpr int kQueriesEmpty = kQueriesFull + 8;
  static constexpr int kBytes = kQueriesEmpty + 8;
  static_assert(kBytes <= 227 * 1024);

  // Where 8 dims of a query row lie from kQueries on: swizzled as the keys are.
  __device__ __forceinline__ static int QueryOffset(int row, int chunk) {
    const int panel = row / kGroupRows * kPanels + chunk / 8;
    return panel * kPanelQueryBytes + row % kGroupRows * kPanelDims * 2 +
           (chunk % 8 ^ row % 8) * 16;
  }
};

// A place in a ring, and the phase of its barriers.
template <int kStages>
struct PrefillRing {
  __device__ __forceinline__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  int stage = 0;
  uint32_t phase = 0;
};

// The items of a block.
struct PrefillItemWalk {
  __device__ __forceinline__ int Next() {
    return static_cast<int>(PrefillItem(round++, blockIdx.x, gridDim.x));
  }

  int round = 0;
};

}  // namespace lockstep::kernels
