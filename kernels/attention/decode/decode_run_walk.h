#pragma once

#include "kernels/attention/decode/decode_runs.h"

namespace lockstep::kernels {

struct DecodeRun {
  const DecodeStrand* strands;
  DecodeCut begin;
  DecodeCut end;
};

// Walks over the splits of a block: first its run of shared strands, then its run of own strands.
// Within a run, strands that were cut come first. So what other blocks compute of such a strand is
// ready by the time this run is done.
class DecodeRunWalk {
 public:
  constexpr DecodeRunWalk(const DecodeRun& shared, const DecodeRun& own) : run_(shared), own_(own) {
    Begin();
    if (AtEnd()) BeginOwn();
  }

  [[gnu::always_inline]] constexpr bool AtEnd() const { return strand_.num_rows == 0; }

  // The strand of the current split. Not valid at the end of the walk.
  [[gnu::always_inline]] constexpr const DecodeStrand& Strand() const { return strand_; }
  // Whether the current split is the first one of its strand in this walk.
  [[gnu::always_inline]] constexpr bool EntersStrand() const { return enters_strand_; }
  [[gnu::always_inline]] constexpr int Split() const { return split_; }
  [[gnu::always_inline]] constexpr bool OpensPart() const {
    return split_ == 0 || split_ >= strand_.folded_splits;
  }
  [[gnu::always_inline]] constexpr bool ClosesPart() const {
    return split_ + 1 >= strand_.folded_splits;
  }
  // The part's number among those of a row.
  [[gnu::always_inline]] constexpr int Part() const {
    return split_ < strand_.folded_splits ? 0 : split_ - strand_.folded_splits + 1;
  }

  [[gnu::always_inline]] constexpr void Advance() {
    enters_strand_ = false;
    if (++split_ < end_split_) return;
    if (in_begin_ && run_.end.strand > run_.begin.strand && run_.end.splits > 0) {
      Enter(run_.end.strand);
    } else {
      EnterNextWholeStrand();
    }
    if (AtEnd() && !in_own_) BeginOwn();
  }

 private:
  [[gnu::always_inline]] constexpr void BeginOwn() {
    run_ = own_;
    in_own_ = true;
    Begin();
  }
  [[gnu::always_inline]] constexpr void Begin() {
    next_strand_ = run_.begin.strand;
    if (run_.begin.strand == run_.end.strand && run_.begin.splits == run_.end.splits) return;
    if (run_.begin.splits > 0) {
      Enter(next_strand_++);
    } else if (run_.end.splits > 0) {
      Enter(run_.end.strand);
    } else {
      EnterNextWholeStrand();
    }
  }
  [[gnu::always_inline]] constexpr void EnterNextWholeStrand() {
    while (next_strand_ < run_.end.strand && run_.strands[next_strand_].num_rows == 0) {
      ++next_strand_;
    }
    if (next_strand_ < run_.end.strand) {
      Enter(next_strand_++);
    } else {
      strand_.num_rows = 0;
    }
  }
  [[gnu::always_inline]] constexpr void Enter(int strand) {
    strand_ = run_.strands[strand];
    enters_strand_ = true;
    in_begin_ = strand == run_.begin.strand && run_.begin.splits > 0;
    split_ = strand_.first_split + (in_begin_ ? run_.begin.splits : 0);
    end_split_ =
        strand_.first_split + (strand == run_.end.strand ? run_.end.splits : strand_.num_splits);
  }

  DecodeRun run_;
  DecodeRun own_;
  bool in_own_ = false;
  int next_strand_ = 0;
  bool in_begin_ = false;
  bool enters_strand_ = false;
  int split_ = 0;
  int end_split_ = 0;
  DecodeStrand strand_ = {};
};

}  // namespace lockstep::kernels
