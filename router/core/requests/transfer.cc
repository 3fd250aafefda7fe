#include "router/core/requests/transfer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/check.h"
#include "router/core/requests/intake.h"

namespace lockstep::router {
namespace {

bool IsStranded(const LiveRequest& live) {
  return std::ranges::all_of(live.samples, [](const Sequence& sequence) {
    return !std::holds_alternative<Running>(sequence.state) &&
           !std::holds_alternative<Draining>(sequence.state);
  });
}

// Another worker may accept what this one refused.
void ForgetRefusals(LiveRequest& live) {
  for (Sequence& sequence : live.samples) sequence.num_refusals = 0;
}

bool WasLostOver(const LiveRequest& live) {
  return std::ranges::any_of(live.samples, [](const Sequence& sequence) {
    return sequence.live() && sequence.was_lost_over();
  });
}

}  // namespace

void LiveRequestDeleter::operator()(LiveRequest* live) const {
  std::unique_ptr<LiveRequest> owned(live);
}

std::vector<StrandedRequest> FindStranded(const SchedulerState& state) {
  std::vector<StrandedRequest> stranded;
  if (WorkerMayStart(state)) return stranded;
  for (const auto& [key, live] : state.population.requests()) {
    if (!IsStranded(*live)) continue;
    const Sequence& leader = live->samples[live->leader];
    stranded.push_back({.request = live->request,
                        .known_tokens = leader.tokens,
                        .has_output = live->HasOutput(),
                        .suspect = WasLostOver(*live),
                        .max_cached_tokens = leader.max_cached_tokens()});
  }
  return stranded;
}

SuspendedRequest Release(SchedulerState& state, RequestKey key) {
  LiveRequest* const live = state.population.Find(key);
  LOCKSTEP_CHECK(live != nullptr && !WorkerMayStart(state) && IsStranded(*live),
                 "only a stranded request is given away, request {} is not", key);
  // The next scheduler counts the wait for a worker from the same start.
  live->served_until = UnservedSinceOf(*live, state);
  ForgetRefusals(*live);
  return SuspendedRequest(state.population.Remove(key).release());
}

void Adopt(SchedulerState& state, SuspendedRequest suspended) {
  LOCKSTEP_CHECK(suspended != nullptr, "nothing was handed over");
  const bool suspect = WasLostOver(*suspended);
  LiveRequest& live = state.population.Insert(std::unique_ptr<LiveRequest>(suspended.release()));
  if (state.lease == nullptr) return;
  if (suspect) state.lease->has_suspects = true;
  FitToWorker(state, live);
  state.population.ForgetEnded();
}

}  // namespace lockstep::router
