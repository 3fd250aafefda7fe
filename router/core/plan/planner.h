#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <span>

#include "common/instant.h"
#include "router/core/messages/step.h"
#include "router/core/plan/fair_order.h"
#include "router/core/plan/open_step.h"
#include "router/core/plan/starter.h"
#include "router/core/requests/scheduler_state.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {

// Makes one step. Decodes come first. Prefill chunks of running and newly started sequences then
// fill the rest of the token budget, in the fair order (FairOrder, Starter). Preemption follows the
// policy's order alone. That order never changes, so the first in it always finishes. Lives for one
// call of NextStep.
//
// Blocks: a running sequence grows by what its next decode may need, with the tokens that are
// drafted for it. Drafts preempt no sequence: where blocks are short, fewer tokens are drafted.
// If one must grow while many blocks are available, all that decode grow for their next few
// decodes. When no block is left, the running sequences get blocks in the policy's order, and the
// last ones are preempted. If fenced blocks only wait for an acknowledgement, the planner waits as
// well. It does not wait for blocks that will fall behind the windows of running sequences.
class Planner {
 public:
  Planner(SchedulerState& state, Instant now);

  // Returns no plan if nothing can run before the next outcome arrives and there is nothing to tell
  // the worker.
  std::optional<StepPlan> Plan();

 private:
  // True if another row may be planned. The sequence is not at its end if every row in flight keeps
  // as few tokens as it may, and it has not run ahead as far as it may.
  bool MayRun(const Sequence& sequence) const;
  bool Decodes(const Sequence& sequence) const;
  // How many tokens may be drafted for the sequence's next decode. Fewer than the bound where its
  // text or its blocks end.
  uint32_t NumDrafts(const Sequence& sequence) const;
  // Blocks that cover so many decodes of the sequence, or all that it has left. 0: its own do.
  uint32_t NumBlocksToGrowTo(const Sequence& sequence, uint32_t num_decodes) const;
  // True if its blocks cover this step's decodes.
  bool HasBlocks(const Sequence& sequence) const {
    return NumBlocksToGrowTo(sequence, step_.iterations) == 0;
  }
  // Decodes of the sequence that this step may keep, with or without its drafts; at least
  // `at_least`.
  uint32_t NumWanted(const Sequence& sequence, bool with_drafts, uint32_t at_least = 1) const;
  // Blocks that all sequences that decode lack for so many decodes.
  BlockCountByGroup CountMissing(bool with_drafts, uint32_t at_least = 1) const;

  // Sets the draft limit of each sequence that decodes next.
  void ChooseDrafts();
  uint32_t ChooseIterations() const;
  bool MustTellOfReleased();
  void ReserveDecodeBlocks();
  void ReserveInPolicyOrder();
  void Preempt(Sequence& sequence);
  // Call if nothing is in flight and no row was planned, because no running sequence has a block to
  // grow into.
  void ResolveStarvation();

  void PlanDecodes();
  void PlanPrefills();
  // `chunked`: running sequences that do not decode yet.
  uint32_t PrefillBudget(std::span<Sequence* const> chunked) const;

  // Plans a step for one suspect alone, with nothing else in flight. The suspect is a running
  // sequence, or else the first waiting sequence. Also returns true if the suspect must first wait
  // for the steps in flight; no row is planned then.
  bool PlanSuspectAlone();
  bool PlanRunningSuspect();

  OpenStep step_;
  const FairOrder order_;
  Starter starter_;
  const uint32_t max_drafts_;
  bool any_drafts_ = false;
};

}  // namespace lockstep::router
