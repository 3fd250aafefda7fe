#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <vector>

#include "common/instant.h"
#include "router/core/messages/step.h"

namespace lockstep::bench {

// How long a step takes. The numbers are of the Qwen3-8B shape on one H200. They were fitted to
// steps of closed loops (bench/results/diary.md, "The model on an H200").
struct StepCosts {
  absl::Duration decodes_alone = absl::Microseconds(4600);  // a step without prompt tokens
  absl::Duration with_prompts = absl::Microseconds(5400);   // a step with them
  absl::Duration decode_row = absl::Nanoseconds(18'500);    // in a step without prompt tokens
  absl::Duration token = absl::Nanoseconds(22'200);         // in a step with them, decodes included
  absl::Duration decoded_key = absl::Nanoseconds(36);       // that a decode row attends to
  // Share of decoded_key for a key that was cached when its row started. Up to four rows read such
  // a key together.
  double cached_key = 0.25;
  absl::Duration thousand_keys = absl::Nanoseconds(620);  // that a prompt token attends to
};

// A worker whose steps compute nothing and take the time that StepCosts say. Its tokens are all
// alike. Runs one step after the other. Knows of the sampling parameters only the number of tokens.
// A row with one token left counts as a decode, as in a real worker.
class TimedWorker {
 public:
  TimedWorker(uint32_t num_slots, const StepCosts& costs) : costs_(costs), slots_(num_slots) {}

  struct Done {
    router::StepOutcome outcome;
    Instant at;
  };
  // The worker gets the plan at `sent`. The step starts at that time, or at the end of the step
  // before it if that is later.
  Done Run(const router::StepPlan& plan, Instant sent);

 private:
  struct Slot {
    uint32_t num_known = 0;
    uint32_t num_computed = 0;
    uint32_t num_cached = 0;  // computed when it started
    uint32_t max_total_tokens = 0;

    bool at_end() const { return num_known == max_total_tokens; }
  };

  absl::Duration TimeOf(const router::StepPlan& plan) const;
  router::RowOutcome RunRow(const router::RunRow& row);

  const StepCosts costs_;
  std::vector<Slot> slots_;
  Instant free_at_ = Instant::InfinitePast();
};

}  // namespace lockstep::bench
