#pragma once

#include <cstdint>

// Where the CUDA attention kernels close a partial result and start a fresh one (docs/numerics.md,
// rule 3). The borders depend on the position alone. Decode spreads the splits over thread blocks,
// so short contexts need short splits. Prefill pays for every border, so the splits get longer with
// the position.
namespace lockstep::kernels {

struct AttentionSplitZone {
  int64_t begin;        // position of its first border
  int64_t first_split;  // the first split of the zone
  int64_t split_keys;   // keys of each split; a multiple of the key tile
};
inline constexpr AttentionSplitZone kFirstSplitZone = {0, 0, 128};
inline constexpr AttentionSplitZone kSecondSplitZone = {512, 4, 256};
inline constexpr AttentionSplitZone kThirdSplitZone = {2048, 10, 512};
inline constexpr AttentionSplitZone kLastSplitZone = {8192, 22, 1024};

constexpr bool SplitZoneFollows(const AttentionSplitZone& zone, const AttentionSplitZone& before) {
  return zone.begin == before.begin + (zone.first_split - before.first_split) * before.split_keys;
}
static_assert(SplitZoneFollows(kSecondSplitZone, kFirstSplitZone) &&
              SplitZoneFollows(kThirdSplitZone, kSecondSplitZone) &&
              SplitZoneFollows(kLastSplitZone, kThirdSplitZone));

// The first position of `split`, if it lies in `zone`.
[[gnu::always_inline]] constexpr int64_t SplitBeginIn(AttentionSplitZone zone, int64_t split) {
  return zone.begin + (split - zone.first_split) * zone.split_keys;
}

// The first position of split `split`. Chooses among positions and not among zones: from a choice
// among zones nvcc makes loads of their fields, and a kernel waits for them at every border.
[[gnu::always_inline]] constexpr int64_t AttentionSplitBegin(int64_t split) {
  return split >= kLastSplitZone.first_split     ? SplitBeginIn(kLastSplitZone, split)
         : split >= kThirdSplitZone.first_split  ? SplitBeginIn(kThirdSplitZone, split)
         : split >= kSecondSplitZone.first_split ? SplitBeginIn(kSecondSplitZone, split)
                                                 : SplitBeginIn(kFirstSplitZone, split);
}

// How many splits the keys 0 .. num_keys - 1 lie in.
[[gnu::always_inline]] constexpr int64_t NumAttentionSplits(int64_t num_keys) {
  const AttentionSplitZone zone = num_keys > kLastSplitZone.begin     ? kLastSplitZone
                                  : num_keys > kThirdSplitZone.begin  ? kThirdSplitZone
                                  : num_keys > kSecondSplitZone.begin ? kSecondSplitZone
                                                                      : kFirstSplitZone;
  return zone.first_split + (num_keys - zone.begin + zone.split_keys - 1) / zone.split_keys;
}

static_assert(AttentionSplitBegin(NumAttentionSplits(8192)) == 8192 && NumAttentionSplits(1) == 1 &&
              NumAttentionSplits(kSecondSplitZone.begin + 1) == kSecondSplitZone.first_split + 1);

}  // namespace lockstep::kernels
