#include "router/core/policy/step_budget.h"

#include <algorithm>

namespace lockstep::router {
namespace {

// Small enough that the first measurement is cheap on any machine. Large enough that it measures
// more than the fixed cost of a step.
constexpr uint32_t kUnmeasuredPrefillTokens = 64;
// A prompt advances by this much even if decodes alone miss the target. Less would save nothing.
constexpr uint32_t kMinPrefillTokens = 16;
// Each long chunk owes 10/8 steps of decodes. So more than half of the steps have decodes only.
constexpr uint32_t kOwedEighths = 10;
constexpr uint32_t kWholeStep = 8;
// Decodes take their first turn when this much is owed. Until then four long chunks have run.
constexpr uint32_t kTurnFrom = 4 * kOwedEighths;
constexpr uint32_t kMostOwed = kTurnFrom + kWholeStep;
// A chunk is long, and owes steps of decodes, if it takes more than this many times as long as
// decodes alone.
constexpr int kLongChunk = 8;
// Steps from one start to the next while decodes alone take too long.
constexpr uint32_t kStepsBetweenStarts = 16;
// A step takes at least and at most these multiples of the target. It grows by this share of the
// time that the waiting tokens need.
constexpr double kLeastOfTarget = 0.5, kMostOfTarget = 4.0, kShareOfWaiting = 0.3;

// On an H200, products of 512 rows or more have tiles of 128 rows, and from 2,048 rows on of 256,
// as the times of prompts show (bench/results/diary.md). Smaller tiles of other devices divide
// these.
constexpr uint32_t kTile = 128, kFewestRowsOfTiles = 512;
constexpr uint32_t kLargeTile = 256, kFewestRowsOfLargeTiles = 2048;

// A chunk that gives up the tokens that would begin a tile, up to a quarter of all.
uint32_t FillTiles(uint32_t num_tokens, uint32_t num_decodes) {
  const uint32_t num_rows = num_tokens + num_decodes;
  if (num_rows < kFewestRowsOfTiles) return num_tokens;
  const uint32_t excess = num_rows % (num_rows < kFewestRowsOfLargeTiles ? kTile : kLargeTile);
  return excess <= num_tokens / 4 ? num_tokens - excess : num_tokens;
}

// Exponential mean over about the last eight steps.
void Update(absl::Duration& mean, absl::Duration sample) {
  mean = mean == absl::ZeroDuration() ? sample : mean + (sample - mean) / 8;
}

}  // namespace

void StepBudget::Observe(const Step& step) {
  if (step.compute <= absl::ZeroDuration()) return;
  if (step.num_decode_tokens > 0) pace_.Observe(step.decode_iterations, step.compute);
  if (step.num_prefill_tokens == 0) {
    Update(decode_time_, step.compute / std::max(step.decode_iterations, 1u));
    return;
  }
  const absl::Duration decode = step.num_decode_tokens > 0 ? decode_time_ : absl::ZeroDuration();
  // A prefill that was entirely hidden behind the decodes still costs an eighth of the step.
  // Without a price the next chunk would be unbounded; with it, it is at most eight times as large
  // as this one.
  const absl::Duration prefill = std::max(step.compute - decode, step.compute / 8);
  Update(time_per_prefill_token_, prefill / step.num_prefill_tokens);
}

void StepBudget::ObserveCached(uint32_t num_tokens, uint32_t num_cached) {
  mean_known_ += (num_tokens - mean_known_) / 8;
  mean_uncached_ += (num_tokens - num_cached - mean_uncached_) / 8;
}

uint64_t StepBudget::UncachedTokens(uint64_t num_waiting_tokens) const {
  if (mean_known_ == 0.0) return num_waiting_tokens;
  return static_cast<uint64_t>(mean_uncached_ / mean_known_ *
                               static_cast<double>(num_waiting_tokens));
}

absl::Duration StepBudget::TimeOfStep(uint64_t num_waiting) const {
  if (target_ == absl::InfiniteDuration()) return target_;
  const absl::Duration waiting = static_cast<double>(num_waiting) * time_per_prefill_token_;
  return std::min(kLeastOfTarget * target_ + kShareOfWaiting * waiting, kMostOfTarget * target_);
}

absl::Duration StepBudget::TimeByPace(const InFlight& in_flight) const {
  const absl::Duration time_in_flight =
      in_flight.num_iterations * decode_time_ +
      static_cast<double>(in_flight.num_prefill_tokens) * time_per_prefill_token_;
  return pace_.NextStep(in_flight.num_iterations, time_in_flight);
}

uint32_t StepBudget::PrefillTokensBesideDecodes(uint32_t bound, uint32_t num_decodes,
                                                uint64_t num_waiting,
                                                const InFlight& in_flight) const {
  const absl::Duration time = std::min(TimeOfStep(num_waiting), TimeByPace(in_flight));
  if (time == absl::InfiniteDuration()) return bound;
  if (time_per_prefill_token_ == absl::ZeroDuration()) {
    return std::min(bound, kUnmeasuredPrefillTokens);
  }
  const absl::Duration room = std::max(time - decode_time_, absl::ZeroDuration());
  const double num_tokens = absl::FDivDuration(room, time_per_prefill_token_);
  if (num_tokens >= bound) return bound;
  const uint32_t fits = std::max(kMinPrefillTokens, static_cast<uint32_t>(num_tokens));
  if (num_waiting <= fits) return std::min(bound, fits);
  return std::min(bound, std::max(kMinPrefillTokens, FillTiles(fits, num_decodes)));
}

absl::Duration StepBudget::TimeToPrefill(double num_tokens, uint32_t max_chunk,
                                         bool beside_decodes) const {
  if (time_per_prefill_token_ == absl::ZeroDuration()) return absl::ZeroDuration();
  if (!beside_decodes) return num_tokens * time_per_prefill_token_;
  double chunks_without_turn =
      static_cast<double>(kTurnFrom - std::min(owed_decode_steps_, kTurnFrom)) / kOwedEighths;
  // Steps get shorter as less waits. So the tokens are counted in parts: each is half of the rest,
  // or one step.
  absl::Duration sum;
  for (double left = num_tokens;;) {
    const absl::Duration step =
        std::min(TimeOfStep(static_cast<uint64_t>(left)), pace_.per_token());
    const double chunk =
        std::clamp<double>(absl::FDivDuration(step - decode_time_, time_per_prefill_token_),
                           std::min(kMinPrefillTokens, max_chunk), max_chunk);
    const absl::Duration prefill = chunk * time_per_prefill_token_;
    if (left <= chunk) {
      const bool fills = step != absl::InfiniteDuration();  // with prompts that come until then
      return sum + decode_time_ + (fills ? prefill : left * time_per_prefill_token_);
    }
    const double part = std::max(left / 2, chunk);
    const double num_chunks = part / chunk;
    sum += num_chunks * (decode_time_ + prefill);
    if (IsLong(prefill)) {
      const double num_turns = std::max(0.0, num_chunks - chunks_without_turn);
      sum += num_turns * decode_time_ * kOwedEighths / kWholeStep;
      chunks_without_turn = std::max(0.0, chunks_without_turn - num_chunks);
    }
    left -= part;
  }
}

bool StepBudget::MayStartBesideDecodes(const InFlight& in_flight) const {
  return TimeByPace(in_flight) >= decode_time_ || num_steps_since_start_ >= kStepsBetweenStarts;
}

bool StepBudget::OwesDecodes() const { return owed_decode_steps_ >= kTurnFrom; }

void StepBudget::Planned(uint32_t num_prefill_tokens, uint32_t num_decode_tokens) {
  ++num_steps_since_start_;
  if (target_ == absl::InfiniteDuration() || num_decode_tokens == 0) return;
  if (num_prefill_tokens == 0) {
    owed_decode_steps_ -= std::min(owed_decode_steps_, kWholeStep);
  } else if (IsLong(num_prefill_tokens * time_per_prefill_token_)) {
    owed_decode_steps_ = std::min(owed_decode_steps_ + kOwedEighths, kMostOwed);
  }
}

bool StepBudget::IsLong(absl::Duration chunk) const {
  return target_ != absl::InfiniteDuration() && chunk > kLongChunk * decode_time_;
}

uint32_t StepBudget::DecodeIterations(uint32_t bound) const {
  if (bound <= 1 || target_ == absl::InfiniteDuration()) return bound;
  if (decode_time_ == absl::ZeroDuration()) return 1;
  const double num_iterations = absl::FDivDuration(target_, decode_time_);
  if (num_iterations >= bound) return bound;
  return std::max<uint32_t>(1, static_cast<uint32_t>(num_iterations));
}

}  // namespace lockstep::router
