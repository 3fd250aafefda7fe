#include "tests/rigs/load/timed_worker.h"

#include <algorithm>

#include "common/check.h"

namespace lockstep::bench {

TimedWorker::Done TimedWorker::Run(const router::StepPlan& plan, Instant sent) {
  LOCKSTEP_CHECK(plan.decode_iterations == 1, "{} decode iterations", plan.decode_iterations);
  for (const router::StartedSlot& started : plan.started) {
    const auto num_known = static_cast<uint32_t>(started.known_tokens.size());
    slots_[started.slot] = {
        .num_known = num_known,
        .num_computed = started.num_computed_tokens,
        .num_cached = started.num_computed_tokens,
        .max_total_tokens = static_cast<uint32_t>(started.request->max_total_tokens())};
  }
  Done done;
  const absl::Duration time = TimeOf(plan);
  free_at_ = std::max(free_at_, sent) + time;
  done.at = free_at_;
  done.outcome.step_id = plan.step_id;
  done.outcome.timings.compute = time;
  for (const router::RunRow& row : plan.rows) done.outcome.rows.push_back(RunRow(row));
  return done;
}

absl::Duration TimedWorker::TimeOf(const router::StepPlan& plan) const {
  absl::Duration attention;
  int64_t num_decodes = 0;
  int64_t num_prompt_tokens = 0;
  for (const router::RunRow& row : plan.rows) {
    const Slot& slot = slots_[row.slot];
    if (slot.at_end()) continue;
    if (slot.num_known - slot.num_computed == 1) {
      ++num_decodes;
      const double num_keys =
          slot.num_known - slot.num_cached + costs_.cached_key * slot.num_cached;
      attention += num_keys * costs_.decoded_key;
    } else {
      num_prompt_tokens += row.num_tokens;
      const double mean_keys = slot.num_computed + row.num_tokens / 2.0;
      attention += row.num_tokens * mean_keys / 1000 * costs_.thousand_keys;
    }
  }
  if (num_prompt_tokens == 0) {
    return costs_.decodes_alone + num_decodes * costs_.decode_row + attention;
  }
  return costs_.with_prompts + (num_prompt_tokens + num_decodes) * costs_.token + attention;
}

router::RowOutcome TimedWorker::RunRow(const router::RunRow& row) {
  Slot& slot = slots_[row.slot];
  router::RowOutcome outcome;
  outcome.slot = row.slot;
  outcome.was_inert = slot.at_end();
  if (outcome.was_inert) return outcome;
  slot.num_computed += row.num_tokens;
  if (slot.num_computed < slot.num_known) return outcome;
  ++slot.num_known;
  outcome.tokens = {1};
  if (slot.at_end()) outcome.stopped = router::StopCause::kLength;
  return outcome;
}

}  // namespace lockstep::bench
