#pragma once

#include <cstdint>

// Where the CUDA attention kernels close a partial result and start a fresh one (docs/numerics.md,
// rule 3): a function of the position alone. Decode gives every split to another block, so short
// splits serve short contexts; prefill pays for every border, so they widen.
namespace lockstep::kernels {

struct AttentionSplitZone {
  int64_t begin;        // position of its first border
  int64_t first_split;  // the split that begins there
  int64_t split_keys;   // between its borders; a multiple of the key tile
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

// The first position of split `split`.
[[gnu::always_inline]] constexpr int64_t AttentionSplitBegin(int64_t split) {
  const AttentionSplitZone zone = split >= kLastSplitZone.first_split     ? kLastSplitZone
                                  : split >= kThirdSplitZone.first_split  ? kThirdSplitZone
                                  : split >= kSecondSplitZone.first_split ? kSecondSplitZone
                                                                          : kFirstSplitZone;
  return zone.begin + (split - zone.first_split) * zone.split_keys;
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
