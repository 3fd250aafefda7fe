#pragma once

#include <cstdint>

#include "kernels/attention/attention_borders.h"
#include "kernels/attention/paged_attention.h"

// How paged decode attention divides its work. The work of a step is a list of strands. The splits
// that several rows have in common, because the same blocks hold their keys, form a shared strand.
// The splits that a row has alone, which may be all its splits, form its own strand. The strands of
// each kind lie one after the other, in tiles of kKeyTile keys, and are cut into runs of about
// equal length. Each KV head has one block for each run, longer runs first. The cuts are the same
// for all heads. A block first takes its run of shared strands, then its run of own strands. So the
// results of rows become complete, and are folded, all over the device.
//
// Splits are folded from left to right. A block folds splits in registers only while they are the
// first splits of a row. If a row's first strand was cut, or is shared, each further split of the
// row becomes a part of its own. Where the cuts lie, and which rows are attended to together,
// changes no bit.
namespace lockstep::kernels {

// A zone of splits, counted in key tiles of one row. The length of its splits is a power of two, so
// kernels shift instead of dividing: they wait long for divisions of 64 bits. (No std::countr_zero:
// nvcc silently turns it into a trap.)
struct TileZone {
  int first_tile;
  int first_split;
  int shift;
};
constexpr TileZone InTiles(const AttentionSplitZone& zone) {
  int shift = 0;
  while (kKeyTile << shift < zone.split_keys) ++shift;
  return {static_cast<int>(zone.begin / kKeyTile), static_cast<int>(zone.first_split), shift};
}
inline constexpr TileZone kFirstTileZone = InTiles(kFirstSplitZone);
inline constexpr TileZone kSecondTileZone = InTiles(kSecondSplitZone);
inline constexpr TileZone kThirdTileZone = InTiles(kThirdSplitZone);
inline constexpr TileZone kLastTileZone = InTiles(kLastSplitZone);

// The split that a tile lies in.
[[gnu::always_inline]] constexpr int SplitOfTile(int tile) {
  const TileZone zone = tile >= kLastTileZone.first_tile     ? kLastTileZone
                        : tile >= kThirdTileZone.first_tile  ? kThirdTileZone
                        : tile >= kSecondTileZone.first_tile ? kSecondTileZone
                                                             : kFirstTileZone;
  return zone.first_split + ((tile - zone.first_tile) >> zone.shift);
}
// The split that the last of `num_keys` keys lies in; there is at least one key. One less than
// NumAttentionSplits, without divisions.
[[gnu::always_inline]] constexpr int LastSplit(int num_keys) {
  return SplitOfTile((num_keys - 1) / static_cast<int>(kKeyTile));
}
// The first tile of a split.
[[gnu::always_inline]] constexpr int FirstTileOfSplit(int split) {
  const TileZone zone = split >= kLastTileZone.first_split     ? kLastTileZone
                        : split >= kThirdTileZone.first_split  ? kThirdTileZone
                        : split >= kSecondTileZone.first_split ? kSecondTileZone
                                                               : kFirstTileZone;
  return zone.first_tile + ((split - zone.first_split) << zone.shift);
}

struct alignas(16) DecodeStrand {
  int row;          // of several rows: where their numbers begin in DecodePlanMemory::rows
  int num_rows;     // 0: the strand is empty
  int num_parts;    // of one row: parts that its result is folded from
  int block_table;  // the table with the blocks of its keys
  int num_keys;     // keys of its row, or of any of several rows, including those after the strand
  int first_split;  // first split of the strand
  int num_splits;   // splits from there on
  int folded_splits;  // splits of its rows, from their first split on, that are folded into one
                      // part
};

// A run begins in this strand, after this many of its splits.
struct DecodeCut {
  int strand;
  int splits;
};

struct DecodePlan {
  int num_runs;
  int slack_tiles;  // a cut this close to a border between two strands moves there
};

class DecodeRuns {
 public:
  // first_tiles: [num_strands + 1], the number of tiles before each strand, and the total.
  // first_splits: [num_strands], the first split of each strand. Both must outlive the object.
  constexpr DecodeRuns(const int* first_tiles, const int* first_splits, int num_strands,
                       const DecodePlan& plan)
      : first_tiles_(first_tiles),
        first_splits_(first_splits),
        num_strands_(num_strands),
        plan_(plan) {}

  // Where run `run` begins. Cut(num_runs) is {num_strands, 0}.
  [[gnu::always_inline]] constexpr DecodeCut Cut(int run) const {
    if (run >= plan_.num_runs || num_strands_ == 0) return {num_strands_, 0};
    const int tile = Share(first_tiles_[num_strands_], run, plan_.num_runs);
    int strand = 0;  // the last strand that begins at or before the tile
    for (int end = num_strands_; end - strand > 1;) {
      const int middle = (strand + end) / 2;
      if (first_tiles_[middle] <= tile) {
        strand = middle;
      } else {
        end = middle;
      }
    }
    const int before = tile - first_tiles_[strand];
    const int behind = first_tiles_[strand + 1] - tile;
    if (before <= plan_.slack_tiles && before <= behind) return {strand, 0};
    if (behind <= plan_.slack_tiles) return {strand + 1, 0};
    const int first_split = first_splits_[strand];
    const int split = SplitOfTile(FirstTileOfSplit(first_split) + before);
    const int begin = FirstTileOfSplit(split) - FirstTileOfSplit(first_split);
    const int border = FirstTileOfSplit(split + 1) - FirstTileOfSplit(first_split);
    const int next = border < before + behind ? border : before + behind;
    if (before - begin <= next - before) return {strand, split - first_split};
    return next == before + behind ? DecodeCut{strand + 1, 0}
                                   : DecodeCut{strand, split + 1 - first_split};
  }

  // The tiles before a cut.
  [[gnu::always_inline]] constexpr int Tiles(const DecodeCut& cut) const {
    if (cut.splits == 0) return first_tiles_[cut.strand];
    const int first_split = first_splits_[cut.strand];
    return first_tiles_[cut.strand] + FirstTileOfSplit(first_split + cut.splits) -
           FirstTileOfSplit(first_split);
  }

  [[gnu::always_inline]] constexpr int NumSplits(int strand) const {
    const int num_tiles = first_tiles_[strand + 1] - first_tiles_[strand];
    const int first_split = first_splits_[strand];
    return num_tiles == 0
               ? 0
               : SplitOfTile(FirstTileOfSplit(first_split) + num_tiles - 1) + 1 - first_split;
  }

  // How many splits of a strand, from its first on, lie in one run.
  [[gnu::always_inline]] constexpr int SplitsOfFirstRun(int strand) const {
    const int splits = NumSplits(strand);
    int run = Share(plan_.num_runs, first_tiles_[strand], first_tiles_[num_strands_]);
    for (; run < plan_.num_runs; ++run) {
      const DecodeCut cut = Cut(run);
      if (cut.strand > strand) return splits;
      if (cut.strand == strand && cut.splits > 0) return cut.splits;
    }
    return splits;
  }

 private:
  // value * part / whole, in 32 bits, because kernels would wait long for a division of 64 bits. No
  // memory holds so many tiles that tiles times runs needs more than 32 bits.
  [[gnu::always_inline]] static constexpr int Share(int value, int part, int whole) {
    return static_cast<int>(static_cast<uint32_t>(value) * static_cast<uint32_t>(part) /
                            static_cast<uint32_t>(whole));
  }

  const int* first_tiles_;
  const int* first_splits_;
  int num_strands_;
  DecodePlan plan_;
};

// A plan for strands of about equal length. With at most as many strands as runs, every strand is
// cut into the same number of runs, as many as possible. With more strands, every run takes the
// same number of whole strands. Blocks with the same keys then read them at the same time.
// `num_strands` counts the strands that have keys, and is at least 1.
[[gnu::always_inline]] constexpr DecodePlan EvenStrandPlan(int num_strands, int max_runs) {
  if (num_strands <= max_runs) return {max_runs / num_strands * num_strands, 0};
  const int strands_of_run = (num_strands + max_runs - 1) / max_runs;
  return {(num_strands + strands_of_run - 1) / strands_of_run, INT32_MAX};
}

// Runs of equal length as far as splits allow.
[[gnu::always_inline]] constexpr DecodePlan CutStrandPlan(int num_tiles, int max_runs) {
  return {max_runs, num_tiles / max_runs / 16};
}

// An even plan is better while its longest run has at most this many tiles: a sixteenth above the
// mean.
[[gnu::always_inline]] constexpr int MaxEvenStrandTiles(int num_tiles, int max_runs) {
  const int mean = (num_tiles + max_runs - 1) / max_runs;
  return mean + mean / 16;
}

}  // namespace lockstep::kernels
