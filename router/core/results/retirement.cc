#include "router/core/results/retirement.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "router/core/results/outcome_check.h"

namespace lockstep::router {

namespace {

// The row is no longer in flight. The upper bound falls by the tokens that the row might have kept
// and did not. The lower bound rises by the tokens that it kept beyond its minimum. Every kept
// token except the last was also an input, so its KV is computed. A row that waits computes its
// last token again.
void CountRow(const Sequence& sequence, Residency& residency, const RowRecord& row,
              uint32_t num_kept) {
  if (row.max_kept == 0) {
    residency.num_computed += row.num_tokens;
    return;
  }
  residency.num_computed += row.num_tokens + num_kept - 1;
  residency.max_kept_in_flight -= row.max_kept;
  if (num_kept == row.max_kept && num_kept == row.min_kept) return;
  residency.min_known += num_kept;
  residency.min_known -= row.min_kept;
  residency.planned_known =
      std::min(sequence.num_tokens() + residency.max_kept_in_flight, sequence.max_total_tokens);
  residency.planned_computed = residency.planned_known - 1;
}

// A row keeps its right drafts, and one token more.
uint32_t NumAcceptedDrafts(uint32_t num_drafted, uint32_t num_kept) {
  return num_drafted > 0 ? num_kept - 1 : 0;
}

}  // namespace

Retirement::Retirement(SchedulerState& state, Instant now)
    : state_(state),
      population_(state.population),
      lease_(*state.lease),
      now_(now),
      worker_drafts_(MaxDrafts(state) > 0) {}

absl::Status Retirement::Apply(StepOutcome outcome) {
  std::vector<RowOutcome*> matched;
  absl::Status checked = CheckStep(outcome);
  if (checked.ok() && outcome.refusal.ok()) {
    checked = CheckOutcome(lease_, lease_.in_flight.front(), outcome, matched);
  }
  if (!checked.ok()) {
    lease_.contradicted = true;
    return checked;
  }
  const StepRecord step = std::move(lease_.in_flight.front());
  lease_.in_flight.pop_front();
  for (const RowRecord& row : step.rows) --row.residency->rows_in_flight;
  if (outcome.refusal.ok()) {
    for (size_t i = 0; i < step.rows.size(); ++i) ApplyRow(step.rows[i], matched[i]);
    // The time of a step without rows says nothing about decodes.
    if (!step.rows.empty()) ObserveTime(step, outcome.timings.compute);
  } else {
    ++state_.num_refused_steps;
    if (!step.doomed) ApplyRefusal(step, outcome.refusal);
  }
  ReleaseFenced();
  return absl::OkStatus();
}

void Retirement::ObserveTime(const StepRecord& step, absl::Duration compute) {
  if (step.prefill_full) state_.prefill_speed.ObserveFull(step.num_prefill_tokens, compute);
  if (step.num_prefill_tokens > 0 && compute > absl::ZeroDuration()) {
    lease_.has_measured_prompt = true;
  }
  state_.budget.Observe({.num_prefill_tokens = step.num_prefill_tokens,
                         .num_decode_tokens = step.num_decode_tokens,
                         .decode_iterations = step.decode_iterations,
                         .compute = compute});
  if (worker_drafts_ && step.num_prefill_tokens == 0) {
    state_.drafts.ObserveStep(num_computed_, compute / step.decode_iterations);
  }
}

void Retirement::ObserveDrafts(Sequence& sequence, const RowRecord& row, const RowOutcome& outcome,
                               uint32_t num_kept) {
  const uint32_t num_right = NumAcceptedDrafts(outcome.num_drafted, num_kept);
  state_.num_planned_decode_tokens += num_right;
  ++state_.rounds_by_drafts[std::min(outcome.num_drafted, kMaxDrafts)];
  for (uint32_t place = 0; place < std::min(num_right, kMaxDrafts); ++place) {
    ++state_.accepted_by_place[place];
  }
  // A row that stopped says nothing about its further drafts.
  if (outcome.stopped != StopCause::kNone) return;
  state_.drafts.ObserveRow(sequence.drafts,
                           {.limit = row.max_drafts,
                            .num_made = outcome.num_drafted,
                            .num_right = num_right,
                            .probes = row.probes_drafts},
                           num_kept);
}

absl::Status Retirement::CheckStep(const StepOutcome& outcome) const {
  if (lease_.contradicted) return Internal("the lease ended with an earlier contradiction");
  if (lease_.in_flight.empty()) {
    return Internal("step {}: a result, but no step is in flight", outcome.step_id);
  }
  const StepRecord& step = lease_.in_flight.front();
  if (outcome.step_id != step.step_id) {
    return Internal("step {}: a result, but step {} is the oldest in flight", outcome.step_id,
                    step.step_id);
  }
  if (step.doomed && outcome.refusal.ok()) {
    return Internal("step {}: the worker ran it after it had refused an earlier one", step.step_id);
  }
  // A step without rows is planned with nothing in flight and names only slots that the worker
  // holds. If it is refused, planning it again would never end.
  if (step.rows.empty() && !outcome.refusal.ok()) {
    return Internal("step {}: the worker refused it although it runs nothing: {}", step.step_id,
                    Message(outcome.refusal));
  }
  return absl::OkStatus();
}

void Retirement::ApplyRow(const RowRecord& row, RowOutcome* outcome) {
  Residency& residency = *row.residency;
  RowOutcome& told = outcome == nullptr ? silent_ : *outcome;
  if (told.was_inert) {
    ++state_.num_wasted_rows;
    return;
  }
  if (!told.tokens.empty()) num_computed_ += 1 + told.num_drafted;
  if (told.stopped != StopCause::kNone || !told.error.ok()) residency.inert = true;
  if (residency.owner == nullptr) {
    ++state_.num_wasted_rows;
    return;
  }
  Sequence& sequence = *residency.owner;
  if (told.error.ok()) TakePromptLogprobs(row, told);
  const auto num_kept = static_cast<uint32_t>(told.tokens.size());
  if (num_kept > 0 && worker_drafts_ && row.num_tokens == 1) {
    ObserveDrafts(sequence, row, told, num_kept);
  }
  if (num_kept > 0) TakeTokens(sequence, told);
  // For a failed row it is unknown what was computed.
  if (told.error.ok()) {
    CountRow(sequence, residency, row, num_kept);
    if (residency.num_computed > sequence.furthest_computed) {
      sequence.furthest_computed = residency.num_computed;
      sequence.num_refusals = 0;
      NoteProgress();
    }
    Publish(sequence, residency);
    lease_.kv.DropBehind(residency.blocks, residency.num_computed);
  }
  if (!told.error.ok() || told.stopped != StopCause::kNone) return End(sequence, told);
  if (num_kept > 0) {
    residency.waits_since = Instant::InfiniteFuture();
  } else if (row.max_kept > 0) {
    EndIfWaitedTooLong(sequence, residency);
  }
}

void Retirement::EndIfWaitedTooLong(Sequence& sequence, Residency& residency) {
  residency.waits_since = std::min(residency.waits_since, now_);
  if (now_ - residency.waits_since < kMaxRowWait) return;
  const absl::Status error = Internal("the worker chose no token after token {} for {}",
                                      sequence.num_tokens(), absl::FormatDuration(kMaxRowWait));
  population_.End(sequence, {.error = error}, &lease_, now_);
}

void Retirement::NoteProgress() {
  if (std::exchange(lease_.progressed, true)) return;
  if (!lease_.draining) state_.unserved_since = Instant::InfiniteFuture();
}

void Retirement::TakePromptLogprobs(const RowRecord& row, RowOutcome& outcome) {
  const PromptLogprobRange range = PromptLogprobsOf(row);
  if (range.count == 0) return;
  LiveRequest& live = *row.residency->owner->request;
  std::ranges::move(outcome.prompt_logprobs, std::back_inserter(live.prompt_logprobs));
  live.next_prompt_logprob = range.first + range.count;
  if (live.next_prompt_logprob < live.num_prompt_tokens()) return;
  live.next_prompt_logprob = 0;
  population_.Emit(PromptLogprobsEvent{.request = live.request->key,
                                       .entries = std::exchange(live.prompt_logprobs, {})});
}

void Retirement::TakeTokens(Sequence& sequence, RowOutcome& outcome) {
  sequence.tokens.insert(sequence.tokens.end(), outcome.tokens.begin(), outcome.tokens.end());
  const LiveRequest& live = *sequence.request;
  live.share->Charge(outcome.tokens.size(), TenantShare::kOutputWeight,
                     live.request->tenant_weight);
  sequence.view.num_known_tokens = sequence.num_tokens();
  const auto num_kept = static_cast<uint32_t>(outcome.tokens.size());
  population_.Emit(
      TokensEvent{.request = live.request->key,
                  .sample_index = sequence.sample_index,
                  .tokens = std::move(outcome.tokens),
                  .logprobs = std::move(outcome.logprobs),
                  .num_drafted = outcome.num_drafted,
                  .num_accepted_drafts = NumAcceptedDrafts(outcome.num_drafted, num_kept)});
}

void Retirement::Publish(Sequence& sequence, Residency& residency) {
  LiveRequest& live = *sequence.request;
  const uint32_t num_before = residency.published.num_blocks;
  lease_.kv.Publish(
      residency.blocks, live.request->prefix_root,
      std::span(sequence.tokens).first(residency.num_computed), residency.published,
      live.request->bypass_prefix_cache ? PublishBelow::kOwnBlock : PublishBelow::kAnyBlock);
  // A sequence that waits for blocks may begin with the same prompt, and now need fewer.
  const bool of_prompt =
      uint64_t{num_before} * lease_.limits.block_size_tokens() < live.num_prompt_tokens();
  if (of_prompt && residency.published.num_blocks != num_before) lease_.blocked.may_fit = true;
  if (!live.gate_open && residency.num_computed >= live.gate_tokens) population_.OpenGate(live);
}

void Retirement::End(Sequence& sequence, const RowOutcome& outcome) {
  if (!outcome.error.ok()) {
    return population_.End(sequence, {.error = outcome.error}, &lease_, now_);
  }
  const std::vector<TokenId>& stop_ids = sequence.request->request->sampling.stop_token_ids;
  const TokenId last = sequence.tokens.back();
  if (std::ranges::binary_search(stop_ids, last)) {
    population_.End(sequence, {.reason = FinishReason::kStop, .stop_token = last}, &lease_, now_);
  } else {
    population_.End(sequence, {.reason = FinishReason::kLength}, &lease_, now_);
  }
}

// Neither this step nor the steps behind it are applied. Every running sequence goes back to its
// last acknowledged token and starts again. The step that starts them first clears the worker's
// slots.
void Retirement::ApplyRefusal(const StepRecord& step, const absl::Status& refusal) {
  CountRefusal(step, refusal);
  const std::vector<Sequence*> running = population_.running();
  for (Sequence* sequence : running) population_.Suspend(*sequence, lease_, now_);
  state_.num_rollbacks += running.size();
  for (StepRecord& later : lease_.in_flight) later.doomed = true;
  lease_.resync = true;
  lease_.slots.ForgetReleased();
  lease_.tell_released_at = Instant::InfiniteFuture();
  lease_.last_rows.clear();
}

void Retirement::CountRefusal(const StepRecord& step, const absl::Status& refusal) {
  for (const RowRecord& row : step.rows) {
    Sequence* sequence = row.residency->owner;
    if (sequence == nullptr) continue;
    ++sequence->num_refusals;
    if (sequence->suspect()) lease_.has_suspects = true;
    if (sequence->num_refusals < kMaxRefusals) continue;
    const absl::Status error = Internal(
        "the worker refused {} steps that ran this sequence after its {} computed tokens, "
        "the last with: {}",
        kMaxRefusals, sequence->furthest_computed, refusal.ToString());
    population_.End(*sequence, {.error = error}, &lease_, now_);
  }
}

void Retirement::ReleaseFenced() {
  std::erase_if(lease_.fenced, [this](const std::unique_ptr<Residency>& residency) {
    if (residency->rows_in_flight > 0) return false;
    if (residency->owner != nullptr) population_.Resume(*residency->owner);
    return true;
  });
}

}  // namespace lockstep::router
