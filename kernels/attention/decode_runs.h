#pragma once

#include <cstdint>

#include "kernels/attention/attention_borders.h"
#include "kernels/attention/paged_attention.h"

// How paged decode attention deals its work out. The rows of a step lie one behind the other, tile
// by tile of kKeyTile keys, and are cut into runs of about equal length: one for each block of a KV
// head, alike for all heads. A block folds the splits of a row in registers as far as they are the
// row's first; each further split of a row that was cut becomes a part of its own, because splits
// are folded from left to right. Where the cuts lie changes no bit.
namespace lockstep::kernels {

// A zone of splits in tiles of one row. A kernel waits long for divisions of 64 bits: its splits
// are a power of two of tiles. (No std::countr_zero: nvcc turns it into a trap without a word.)
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

// AttentionSplitBegin and NumAttentionSplits in tiles.
[[gnu::always_inline]] constexpr int SplitOfTile(int tile) {
  const TileZone zone = tile >= kLastTileZone.first_tile     ? kLastTileZone
                        : tile >= kThirdTileZone.first_tile  ? kThirdTileZone
                        : tile >= kSecondTileZone.first_tile ? kSecondTileZone
                                                             : kFirstTileZone;
  return zone.first_split + ((tile - zone.first_tile) >> zone.shift);
}
[[gnu::always_inline]] constexpr int FirstTileOfSplit(int split) {
  const TileZone zone = split >= kLastTileZone.first_split     ? kLastTileZone
                        : split >= kThirdTileZone.first_split  ? kThirdTileZone
                        : split >= kSecondTileZone.first_split ? kSecondTileZone
                                                               : kFirstTileZone;
  return zone.first_tile + ((split - zone.first_split) << zone.shift);
}

// A run begins with this split of this row.
struct DecodeCut {
  int row;
  int split;
};

struct DecodePlan {
  int num_runs;
  int slack_tiles;  // a cut this close to a border between two rows moves there
};

// One split of a row, and its place among the parts that the row's result is folded from.
struct DecodeSplit {
  int row;
  int split;
  int num_parts;     // 1: the run holds the whole row. 0: the run is at its end
  int first_splits;  // how many splits the first part has
  bool opens;        // the first split of a part
  bool closes;       // the last one
};

class DecodeRuns {
 public:
  // first_tiles: [num_rows + 1], the tiles of the rows before; outlives the object.
  constexpr DecodeRuns(const int* first_tiles, int num_rows, const DecodePlan& plan)
      : first_tiles_(first_tiles), num_rows_(num_rows), plan_(plan) {}

  // Where run `run` begins; that of num_runs is {num_rows, 0}.
  [[gnu::always_inline]] constexpr DecodeCut Cut(int run) const {
    if (run >= plan_.num_runs) return {num_rows_, 0};
    const int tile = Share(first_tiles_[num_rows_], run, plan_.num_runs);
    int row = 0;  // the last one that begins at or before the tile
    for (int end = num_rows_; end - row > 1;) {
      const int middle = (row + end) / 2;
      if (first_tiles_[middle] <= tile) {
        row = middle;
      } else {
        end = middle;
      }
    }
    const int before = tile - first_tiles_[row];
    const int behind = first_tiles_[row + 1] - tile;
    if (before <= plan_.slack_tiles && before <= behind) return {row, 0};
    if (behind <= plan_.slack_tiles) return {row + 1, 0};
    const int split = SplitOfTile(before);
    const int border = FirstTileOfSplit(split + 1);
    const int next = border < before + behind ? border : before + behind;
    if (before - FirstTileOfSplit(split) <= next - before) return {row, split};
    return next == before + behind ? DecodeCut{row + 1, 0} : DecodeCut{row, split + 1};
  }

  // The tiles before a cut.
  [[gnu::always_inline]] constexpr int Tiles(const DecodeCut& cut) const {
    return first_tiles_[cut.row] + FirstTileOfSplit(cut.split);
  }

  [[gnu::always_inline]] constexpr int NumSplits(int row) const {
    const int num_tiles = first_tiles_[row + 1] - first_tiles_[row];
    return num_tiles == 0 ? 0 : SplitOfTile(num_tiles - 1) + 1;
  }

  // How many splits of a row, from its first on, lie in one run.
  [[gnu::always_inline]] constexpr int FirstSplits(int row) const {
    const int splits = NumSplits(row);
    int run = Share(plan_.num_runs, first_tiles_[row], first_tiles_[num_rows_]);
    for (; run < plan_.num_runs; ++run) {
      const DecodeCut cut = Cut(run);
      if (cut.row > row) return splits;
      if (cut.row == row && cut.split > 0) return cut.split;
    }
    return splits;
  }

 private:
  // value * part / whole. Kernels would wait for a division of 64 bits; no memory holds so many
  // tiles that a product of theirs and the runs needs them.
  [[gnu::always_inline]] static constexpr int Share(int value, int part, int whole) {
    return static_cast<int>(static_cast<uint32_t>(value) * static_cast<uint32_t>(part) /
                            static_cast<uint32_t>(whole));
  }

  const int* first_tiles_;
  int num_rows_;
  DecodePlan plan_;
};

// The splits of one run. Those of rows that were cut come first: what other runs have of such a row
// is there by the time this run is done.
class DecodeRunWalk {
 public:
  constexpr DecodeRunWalk(const DecodeRuns& runs, int run)
      : runs_(runs), begin_(runs.Cut(run)), end_(runs.Cut(run + 1)), next_row_(begin_.row) {
    if (begin_.row == end_.row && begin_.split == end_.split) return;
    if (begin_.split > 0) {
      ++next_row_;
      Enter(begin_.row);
    } else if (end_.split > 0) {
      Enter(end_.row);
    } else {
      EnterNextWholeRow();
    }
  }

  // The split at hand; num_parts = 0: none is left.
  [[gnu::always_inline]] constexpr const DecodeSplit& Split() const { return split_; }

  [[gnu::always_inline]] constexpr void Advance() {
    if (++split_.split < end_split_) {
      MarkPart();
    } else if (split_.row == begin_.row && begin_.split > 0 && end_.row > begin_.row &&
               end_.split > 0) {
      Enter(end_.row);
    } else {
      EnterNextWholeRow();
    }
  }

 private:
  [[gnu::always_inline]] constexpr void EnterNextWholeRow() {
    while (next_row_ < end_.row && runs_.NumSplits(next_row_) == 0) ++next_row_;
    if (next_row_ < end_.row) {
      Enter(next_row_++);
    } else {
      split_.num_parts = 0;
    }
  }
  [[gnu::always_inline]] constexpr void Enter(int row) {
    const int splits = runs_.NumSplits(row);
    split_.row = row;
    split_.split = row == begin_.row ? begin_.split : 0;
    end_split_ = row == end_.row ? end_.split : splits;
    split_.first_splits = split_.split > 0 ? runs_.FirstSplits(row) : end_split_;
    split_.num_parts = 1 + splits - split_.first_splits;
    MarkPart();
  }
  [[gnu::always_inline]] constexpr void MarkPart() {
    const bool in_first_part = split_.split < split_.first_splits;
    split_.opens = !in_first_part || split_.split == 0;
    split_.closes = !in_first_part || split_.split + 1 == split_.first_splits;
  }

  DecodeRuns runs_;
  DecodeCut begin_;
  DecodeCut end_;
  int next_row_;
  int end_split_ = 0;
  DecodeSplit split_ = {};
};

// Whole rows in every run, as many as possible alike. `num_rows`: those that have keys, at least 1.
[[gnu::always_inline]] constexpr DecodePlan WholeRowPlan(int num_rows, int max_runs) {
  const int rows_of_run = (num_rows + max_runs - 1) / max_runs;
  return {(num_rows + rows_of_run - 1) / rows_of_run, INT32_MAX};
}

// Runs of equal length as far as splits allow.
[[gnu::always_inline]] constexpr DecodePlan CutRowPlan(int num_tiles, int max_runs) {
  return {max_runs, num_tiles / max_runs / 16};
}

// The longest run with which whole rows are still better than cut ones: a sixteenth above the mean.
[[gnu::always_inline]] constexpr int MaxWholeRowTiles(int num_tiles, int max_runs) {
  const int mean = (num_tiles + max_runs - 1) / max_runs;
  return mean + mean / 16;
}

}  // namespace lockstep::kernels
