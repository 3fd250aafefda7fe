#pragma once

#include <absl/time/time.h>

#include <array>
#include <cstdint>
#include <span>

#include "router/core/policy/draft_record.h"
#include "router/core/policy/step_times.h"

namespace lockstep::router {

// A sequence that decodes in the next step.
struct DraftingRow {
  DraftRecord* record = nullptr;
  uint32_t max_drafts = 0;  // 0: nothing may be drafted
  // Set by DraftPolicy::Choose.
  uint32_t num_drafts = 0;
  bool probes = false;
};

// Decides how many tokens a worker may draft for each sequence of a step. Its aim is goodput: the
// tokens that a step is expected to keep, by the time that it is expected to take.
//
//   goodput = (sum over sequences of 1 + expected right drafts) / time(sequences + expected drafts)
//
// The likeliest drafts are worth most. So every choice is a price: a draft is allowed if the chance
// that it and all before it are right reaches the price.
// The policy computes the goodput of each price, and takes the best. "Off" is a price as well, so
// drafts stop where they do not pay, and come back where they do. Times are measured (StepTimes),
// and chances too: of each sequence (DraftRecord), and of all for a sequence that is new.
//
// Nobody is hurt: drafts of others make no sequence more than a quarter slower. The price changes
// only if that gains something, so that it does not swing. Pure: no clock, no randomness.
class DraftPolicy {
 public:
  // Drafts make no step longer than `max_time_per_token`, so that sequences without drafts keep to
  // it.
  explicit DraftPolicy(absl::Duration max_time_per_token = absl::InfiniteDuration())
      : max_step_seconds_(absl::ToDoubleSeconds(max_time_per_token)) {}

  // A step without prompts was computed: `num_tokens`, drafts included, in `compute`.
  void ObserveStep(uint32_t num_tokens, absl::Duration compute) {
    times_.Observe(num_tokens, compute);
  }
  // A row has its result.
  void ObserveRow(DraftRecord& record, const DraftRound& round, uint32_t num_kept);

  // Sets num_drafts of each row. Rows that are new get a record.
  void Choose(std::span<DraftingRow> rows);

  // What the last choice expects, in tokens a second, without probes. 0: unknown.
  struct Goodput {
    double chosen = 0, off = 0;
  };
  const Goodput& goodput() const { return goodput_; }

 private:
  // Prices rise with their level. A draft's level is that of the chance that it is right.
  static constexpr uint32_t kNumLevels = 64;
  static constexpr uint32_t kOff = kNumLevels;

  // What the drafts of a level add: expected right drafts, and expected drafts.
  struct Level {
    float num_right = 0, num_made = 0;
    float least_kept = 0;  // by the sequence that keeps least, with this price
  };

  void FillLevels(std::span<DraftingRow> rows);
  uint32_t ChoosePrice(double num_rows);
  // Tokens of a sequence from one probe to the next.
  double ProbeInterval(double num_rows) const;
  // Returns true if the step must draft nothing, because the time without drafts is not known.
  bool MustMeasurePlainStep(uint32_t num_rows, bool any_drafts);

  double max_step_seconds_;
  StepTimes times_;
  DraftOdds mean_odds_ = DraftOdds::Unknown();  // over all sequences
  uint32_t price_ = kOff;
  uint32_t num_steps_since_plain_ = 0;
  Goodput goodput_;
  double expected_tokens_ = 0;                 // that the chosen step computes
  std::array<Level, kNumLevels> levels_ = {};  // scratch of Choose
};

}  // namespace lockstep::router
