#include "router/core/results/outcome_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/status.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {
namespace {

// An error about one row of one step.
absl::Status Contradiction(const StepRecord& step, const RowRecord& row, std::string_view what) {
  return Internal("step {}, slot {}: {}", step.step_id, row.slot, what);
}

absl::Status OutsideVocabulary(const WorkerLease& lease, const StepRecord& step,
                               const RowRecord& row, TokenId token) {
  return Contradiction(
      step, row, fmt::format("token {} in a vocabulary of {}", token, lease.limits.vocab_size));
}

absl::Status MatchRows(WorkerLease& lease, const StepRecord& step, StepOutcome& outcome,
                       std::vector<RowOutcome*>& matched) {
  matched.assign(step.rows.size(), nullptr);
  for (uint32_t i = 0; i < step.rows.size(); ++i) lease.row_of_slot[step.rows[i].slot] = i + 1;
  absl::Status status;
  for (RowOutcome& row : outcome.rows) {
    const uint32_t found = row.slot < lease.row_of_slot.size() ? lease.row_of_slot[row.slot] : 0;
    if (found == 0) {
      status = Internal("step {}: slot {} was not part of it", step.step_id, row.slot);
      break;
    }
    if (matched[found - 1] != nullptr) {
      status = Internal("step {}: slot {} is reported twice", step.step_id, row.slot);
      break;
    }
    matched[found - 1] = &row;
  }
  for (const RowRecord& row : step.rows) lease.row_of_slot[row.slot] = 0;
  return status;
}

// Checks the description of one position. It has at most as many best tokens as were asked for, all
// ids and ranks are in the vocabulary, and all log-probabilities are numbers.
absl::Status CheckEntry(const WorkerLease& lease, const StepRecord& step, const RowRecord& row,
                        const TokenLogprobs& entry, int32_t num_wanted) {
  if (entry.top.size() > static_cast<size_t>(std::max(num_wanted, 0))) {
    return Contradiction(step, row,
                         fmt::format("{} best tokens with their log-probabilities, {} were asked "
                                     "for",
                                     entry.top.size(), num_wanted));
  }
  const uint32_t vocab_size = lease.limits.vocab_size;
  if (entry.rank > vocab_size) {
    return Contradiction(step, row,
                         fmt::format("rank {} in a vocabulary of {}", entry.rank, vocab_size));
  }
  bool is_number = !std::isnan(entry.logprob);
  for (const auto& [token, logprob] : entry.top) {
    if (token >= vocab_size) return OutsideVocabulary(lease, step, row, token);
    is_number = is_number && !std::isnan(logprob);
  }
  if (!is_number) return Contradiction(step, row, "a log-probability is not a number");
  return absl::OkStatus();
}

absl::Status CheckPromptLogprobs(const WorkerLease& lease, const StepRecord& step,
                                 const RowRecord& row, const RowOutcome& outcome) {
  const PromptLogprobRange expected = PromptLogprobsOf(row);
  const size_t count = outcome.prompt_logprobs.size();
  if (count != expected.count || (count > 0 && outcome.first_prompt_logprob != expected.first)) {
    return Contradiction(
        step, row,
        fmt::format("{} prompt log-probabilities from position {}, expected {} from {}", count,
                    outcome.first_prompt_logprob, expected.count, expected.first));
  }
  const std::vector<TokenId>& tokens = row.residency->owner->tokens;
  const int32_t num_wanted = row.residency->owner->request->request->sampling.num_prompt_logprobs;
  for (size_t i = 0; i < count; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(CheckEntry(lease, step, row, outcome.prompt_logprobs[i], num_wanted));
    if (outcome.prompt_logprobs[i].token == tokens[expected.first + i]) continue;
    return Contradiction(step, row,
                         fmt::format("the prompt log-probability at position {} is of "
                                     "token {}, the prompt has {} there",
                                     expected.first + i, outcome.prompt_logprobs[i].token,
                                     tokens[expected.first + i]));
  }
  return absl::OkStatus();
}

absl::Status CheckLogprobs(const WorkerLease& lease, const StepRecord& step, const RowRecord& row,
                           const RowOutcome& outcome) {
  const int32_t num_wanted = row.residency->owner->request->request->sampling.num_logprobs;
  const size_t expected = num_wanted >= 0 ? outcome.tokens.size() : 0;
  if (outcome.logprobs.size() != expected) {
    return Contradiction(step, row,
                         fmt::format("{} log-probabilities for {} tokens, expected {}",
                                     outcome.logprobs.size(), outcome.tokens.size(), expected));
  }
  for (size_t i = 0; i < expected; ++i) {
    if (outcome.logprobs[i].token != outcome.tokens[i]) {
      return Contradiction(step, row, "a log-probability is not of the token that was kept");
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckEntry(lease, step, row, outcome.logprobs[i], num_wanted));
  }
  return absl::OkStatus();
}

// The worker decides when a row ends. The router checks this decision token by token.
absl::Status CheckTokens(const WorkerLease& lease, const StepRecord& step, const RowRecord& row,
                         const RowOutcome& outcome) {
  const Sequence& sequence = *row.residency->owner;
  const SamplingParams& sampling = sequence.request->request->sampling;
  const bool constrained = sequence.request->request->constraint.has_value();
  const uint32_t num_generated = sequence.num_generated();
  bool is_stop = false;
  bool is_full = false;
  for (size_t i = 0; i < outcome.tokens.size(); ++i) {
    if (outcome.tokens[i] >= lease.limits.vocab_size) {
      return OutsideVocabulary(lease, step, row, outcome.tokens[i]);
    }
    if (is_stop || is_full) return Contradiction(step, row, "tokens follow after its end");
    is_stop = std::ranges::binary_search(sampling.stop_token_ids, outcome.tokens[i]);
    is_full = sequence.num_tokens() + i + 1 == sequence.max_total_tokens;
    // A constraint may allow nothing but an end.
    if (is_stop && !constrained && num_generated + i < sampling.min_new_tokens) {
      return Contradiction(step, row,
                           fmt::format("stop token {} before min_tokens {}", outcome.tokens[i],
                                       sampling.min_new_tokens));
    }
  }
  const bool agreed = (outcome.stopped == StopCause::kNone && !is_stop && !is_full) ||
                      (outcome.stopped == StopCause::kStopToken && is_stop) ||
                      (outcome.stopped == StopCause::kLength && is_full);
  if (!agreed) {
    return Contradiction(
        step, row,
        fmt::format("stop cause {} at {} of {} tokens, the last one {} a stop token",
                    static_cast<int>(outcome.stopped),
                    sequence.num_tokens() + outcome.tokens.size(), sequence.max_total_tokens,
                    is_stop ? "is" : "is not"));
  }
  const bool complete = outcome.stopped != StopCause::kNone || !outcome.error.ok() ||
                        outcome.tokens.size() >= row.min_kept;
  if (complete) return absl::OkStatus();
  const std::string more = row.max_kept > row.min_kept ? " or more" : "";
  return Contradiction(
      step, row,
      fmt::format("{} tokens kept, expected {}{}", outcome.tokens.size(), row.min_kept, more));
}

absl::Status CheckRow(const WorkerLease& lease, const StepRecord& step, const RowRecord& row,
                      const RowOutcome& outcome) {
  const Residency& residency = *row.residency;
  if (outcome.was_inert != residency.inert) {
    return Contradiction(step, row,
                         residency.inert ? "it was inert, the worker ran it"
                                         : "the worker says it was inert, it was not");
  }
  if (outcome.tokens.size() > (residency.inert ? 0 : row.max_kept)) {
    return Contradiction(step, row,
                         fmt::format("{} tokens kept, at most {} were planned",
                                     outcome.tokens.size(), row.max_kept));
  }
  if (residency.inert) {
    if (outcome.stopped == StopCause::kNone && outcome.error.ok()) return absl::OkStatus();
    return Contradiction(step, row, "an inert row stopped or failed");
  }
  if (residency.owner == nullptr) return absl::OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(CheckLogprobs(lease, step, row, outcome));
  LOCKSTEP_RETURN_IF_ERROR(CheckTokens(lease, step, row, outcome));
  return outcome.error.ok() ? CheckPromptLogprobs(lease, step, row, outcome) : absl::OkStatus();
}

}  // namespace

PromptLogprobRange PromptLogprobsOf(const RowRecord& row) {
  const Residency& residency = *row.residency;
  if (residency.first_prompt_logprob == 0) return {};
  const uint32_t first = std::max(row.start() + 1, residency.first_prompt_logprob);
  const uint32_t end =
      std::min(row.start() + row.num_tokens + 1, residency.owner->request->num_prompt_tokens());
  if (end <= first) return {};
  return {.first = first, .count = end - first};
}

absl::Status CheckOutcome(WorkerLease& lease, const StepRecord& step, StepOutcome& outcome,
                          std::vector<RowOutcome*>& matched) {
  LOCKSTEP_RETURN_IF_ERROR(MatchRows(lease, step, outcome, matched));
  const RowOutcome silent;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const RowOutcome& row = matched[i] == nullptr ? silent : *matched[i];
    LOCKSTEP_RETURN_IF_ERROR(CheckRow(lease, step, step.rows[i], row));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::router
