#include "router/core/requests/first_token.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/status.h"

namespace lockstep::router {
namespace {

// Of the time that is allowed: requests that come later may make it a little longer than expected.
constexpr double kAim = 0.9;

// Tokens that go before a request.
struct Before {
  double certain = 0;  // of its own tenant and of more urgent requests
  double others = 0;   // of other tenants, as far as their turns come first
  bool waits = false;  // some of the certain ones have not started
  double all() const { return certain + others; }
};

// Tokens of a prompt that are probably not cached.
double NumUncached(const StepBudget& budget, const Request& request, size_t num_tokens) {
  return request.computes_whole_prompt() ? static_cast<double>(num_tokens)
                                         : static_cast<double>(budget.UncachedTokens(num_tokens));
}

Before CountBefore(const SchedulerState& state, const Request& request, double num_own,
                   Instant now) {
  const PolicyView view = ViewOf(request);
  Before before;
  struct Queue {
    double num_tokens = 0;
    double weight = 1;
  };
  absl::flat_hash_map<std::string_view, Queue> others;
  const auto count = [&](const Sequence& sequence, double num_left, bool waits) {
    const bool is_own = sequence.view.tenant == view.tenant;
    if (is_own || sequence.view.priority != view.priority) {
      if (!state.policy->Before(sequence.view, view, now)) return;
      before.certain += num_left;
      before.waits = before.waits || waits;
      return;
    }
    Queue& queue = others[sequence.view.tenant];
    queue.num_tokens += num_left;
    queue.weight = sequence.request->request->tenant_weight;
  };
  for (const Sequence* sequence : state.population.waiting()) {
    count(*sequence, NumUncached(state.budget, *sequence), /*waits=*/true);
  }
  for (const Sequence* sequence : state.population.running()) {
    count(*sequence, sequence->num_prefill_tokens(), /*waits=*/false);
  }
  // Tenants take turns by weight. So until this request is done each other gets in proportion.
  const double num_until_done = before.certain + num_own;
  for (const auto& [tenant, queue] : others) {
    before.others +=
        std::min(queue.num_tokens, num_until_done * queue.weight / request.tenant_weight);
  }
  return before;
}

// True if no waiting sequence starts before a running one ends.
bool WaitsForAnEnd(const SchedulerState& state) {
  const WorkerLease& lease = *state.lease;
  if (state.population.running().size() >= MaxRunning(state)) return true;
  if (!state.population.running().empty() && state.budget.DecodesMissThePace()) return true;
  return lease.LacksBlocksToStart() &&
         std::ranges::any_of(state.population.waiting(), [&lease](const Sequence* sequence) {
           return sequence->view.order == lease.blocked.order;
         });
}

}  // namespace

PolicyView ViewOf(const Request& request) {
  return {.priority = request.priority,
          .arrival = request.arrival,
          .order = std::numeric_limits<uint64_t>::max(),
          .tenant = request.tenant,
          .num_known_tokens = static_cast<uint32_t>(request.prompt_tokens.size())};
}

double NumUncached(const StepBudget& budget, const Sequence& waiting) {
  const uint32_t num_own = waiting.num_own_tokens();
  if (num_own < waiting.num_tokens()) return num_own;
  return NumUncached(budget, *waiting.request->request, waiting.num_tokens());
}

absl::Status CheckFirstToken(const SchedulerState& state, const Request& request, Instant now) {
  const absl::Duration most = kAim * state.config.max_time_to_first_token;
  if (most == absl::InfiniteDuration() || request.follows_in_batch) return absl::OkStatus();
  if (!WorkerMayStart(state) || !state.lease->has_measured_prompt) return absl::OkStatus();
  const double num_own = NumUncached(state.budget, request, request.prompt_tokens.size());
  const Before before = CountBefore(state, request, num_own, now);
  if (before.waits && WaitsForAnEnd(state)) {
    return ResourceExhausted(
        "requests wait until a running one ends, so the first token would probably come later than "
        "in {} ms",
        absl::ToInt64Milliseconds(most));
  }
  if (before.all() == 0) return absl::OkStatus();
  const bool beside_decodes = !state.population.running().empty();
  const auto time_of = [&](double num_tokens) {
    return state.budget.TimeToPrefill(num_tokens, MaxPrefillTokens(state), beside_decodes);
  };
  const absl::Duration alone = time_of(num_own);
  const absl::Duration wait = time_of(before.all() + num_own);
  // A prompt that takes most of the time by itself may still wait for half of it: if it were
  // refused, it would never be served.
  const absl::Duration limit = std::max(most, alone + most / 2);
  if (wait <= limit) return absl::OkStatus();
  return ResourceExhausted(
      "the first token would come after about {} ms, of which {} ms are for prompts that came "
      "before; at most {} ms are allowed",
      absl::ToInt64Milliseconds(wait), absl::ToInt64Milliseconds(wait - alone),
      absl::ToInt64Milliseconds(limit));
}

}  // namespace lockstep::router
