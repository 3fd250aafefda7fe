#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/instant.h"
#include "router/core/messages/step.h"
#include "router/core/requests/scheduler_state.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {

// Makes one step. Decodes come first; prefill chunks of running and of newly started sequences, in
// the fair order, fill what is left of the token budget. Lives for one call of NextStep.
//
// The fair order: the first sequence in the policy's order decides which priority starts next.
// Within this priority, the tenant that was served least goes first (TenantShares), and within a
// tenant the policy's order counts. To prevent starvation by ever new tenants, every sixteenth
// start ignores fairness and takes the policy's first. The last sixteenth of the slots is reserved
// for tenants that run less than that, so that a tenant with few requests need not wait until a
// tenant that fills all slots finishes one. Preemption follows the policy's order alone. That order
// never changes, so the first in it always finishes.
//
// Blocks: a sequence starts with blocks for all its tokens or not at all. It grows by what its next
// decode may need. When no block is left, the running sequences get blocks in the policy's order,
// and the last ones are preempted. If blocks only wait for an acknowledgement, the planner waits as
// well.
class Planner {
 public:
  Planner(SchedulerState& state, Instant now);

  // No plan: there is nothing to run before the next outcome arrives, and nothing to tell the
  // worker.
  std::optional<StepPlan> Plan();

 private:
  bool Before(const Sequence& a, const Sequence& b) const;
  // Of at least one.
  Sequence* FirstInPolicyOrder(std::span<Sequence* const> sequences) const;
  // The first in the fair order; null without any.
  Sequence* FairFirst(std::span<Sequence* const> sequences) const;
  // `a` goes before `b` in the fair order of the two alone.
  bool FairBefore(const Sequence& a, const Sequence& b) const;
  // Another row may be planned: the sequence is not at its end, even if every step in flight keeps
  // as many tokens as it may.
  bool MayRun(const Sequence& sequence) const;
  bool Decodes(const Sequence& sequence) const;
  uint32_t NumMissingBlocks(const Sequence& sequence) const;

  uint32_t ChooseIterations() const;
  bool MustTellOfReleased();
  void ReserveDecodeBlocks();
  void ReserveInPolicyOrder();
  void Preempt(Sequence& sequence);
  absl::Status TooLargeForWorker(const Sequence& sequence, uint32_t num_blocks) const;
  // Nothing runs, nothing is in flight, and the first sequence has no block to grow into.
  void ResolveLoneStarvation();

  void PlanDecodes();
  void PlanPrefills();
  // `chunked`: those that run and whose prompts are not computed yet.
  uint32_t PrefillBudget(std::span<Sequence* const> chunked) const;

  // A step of nothing but a suspect, one that runs or else the first waiting sequence, with nothing
  // else in flight: true as well when no step is planned yet, because that must come back first.
  bool PlanSuspectAlone();
  bool PlanRunningSuspect();
  // Starts the first waiting sequence, if it goes before `rival` (unless null) and fits. Null if
  // not.
  Sequence* StartNext(const Sequence* rival);
  // In the fair order, or when it is the policy's turn, of those that may start.
  Sequence* FirstWaiting() const;
  // The slots that are left are kept for other tenants.
  bool KeptFrom(const Sequence& sequence) const;
  bool StartIfFits(Sequence& sequence);
  void AddStarted(const Sequence& sequence, const Residency& residency);

  void AddRow(Sequence& sequence, uint32_t num_tokens);
  void Charge(Sequence& sequence, uint32_t start, uint32_t num_tokens);
  StepPlan Commit();

  SchedulerState& state_;
  Population& population_;
  WorkerLease& lease_;
  const Instant now_;
  const size_t max_running_;

  StepPlan plan_;
  StepRecord record_;
  uint32_t iterations_ = 1;
  bool starved_ = false;  // blocks ran short: nothing new is started in this step
  bool changed_ = false;  // a sequence was preempted or failed: planning again may find work
};

}  // namespace lockstep::router
