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

// Makes one step. Decodes come first. Prefill chunks of running and newly started sequences then
// fill the rest of the token budget, in the fair order. Lives for one call of NextStep.
//
// The fair order: the first sequence in the policy's order decides which priority starts next.
// Within this priority, the tenant that was served least goes first (TenantShares). Within a
// tenant, the policy's order counts. To prevent starvation by ever new tenants, every sixteenth
// start ignores fairness and takes the policy's first. The last sixteenth of the slots is reserved
// for tenants that run fewer sequences than that. So a tenant with few requests need not wait until
// a tenant that fills all slots finishes one. Preemption follows the policy's order alone. That
// order never changes, so the first in it always finishes.
//
// Blocks: a sequence starts with blocks for all its tokens or not at all. (In a group with a window
// it starts with the blocks of a window, and grows with each chunk.) It grows by what its next
// decode may need, with the tokens that are drafted for it. Nobody is preempted for drafts: where
// blocks are short, fewer tokens are drafted. If one must grow while many blocks are available, all
// that decode grow for their next few decodes. When no block is left, the running sequences get
// blocks in the policy's order, and the last ones are preempted. If fenced blocks only wait for an
// acknowledgement, the planner waits as well. It does not wait for blocks that will fall behind the
// windows of running sequences.
class Planner {
 public:
  Planner(SchedulerState& state, Instant now);

  // Returns no plan if nothing can run before the next outcome arrives and there is nothing to tell
  // the worker.
  std::optional<StepPlan> Plan();

 private:
  bool Before(const Sequence& a, const Sequence& b) const;
  // Needs at least one sequence.
  Sequence* FirstInPolicyOrder(std::span<Sequence* const> sequences) const;
  // The first in the fair order; null if there is no sequence.
  Sequence* FairFirst(std::span<Sequence* const> sequences) const;
  // True if `a` goes before `b` in the fair order, when only these two are compared.
  bool FairBefore(const Sequence& a, const Sequence& b) const;
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
    return NumBlocksToGrowTo(sequence, iterations_) == 0;
  }
  // Blocks that all sequences that decode lack for so many decodes.
  BlockCountByGroup CountMissing(uint32_t num_decodes) const;

  uint32_t ChooseIterations() const;
  bool MustTellOfReleased();
  void ReserveDecodeBlocks();
  void ReserveInPolicyOrder();
  void Preempt(Sequence& sequence);
  absl::Status TooLargeForWorker(const Sequence& sequence, uint32_t num_blocks) const;
  // Call if nothing is in flight and no row was planned, because no running sequence has a block to
  // grow into.
  void ResolveStarvation();

  void PlanDecodes();
  void PlanPrefills();
  // `chunked`: running sequences that do not decode yet.
  uint32_t PrefillBudget(std::span<Sequence* const> chunked) const;
  StepBudget::InFlight DecodesInFlight() const;

  // Plans a step for one suspect alone, with nothing else in flight. The suspect is a running
  // sequence, or else the first waiting sequence. Also returns true if the suspect must first wait
  // for the steps in flight; no row is planned then.
  bool PlanSuspectAlone();
  bool PlanRunningSuspect();
  // False if nothing may start before a sequence ends, while blocks are short, or once this step
  // starts enough.
  bool HasRoomToStart() const;
  // True if a sequence that was to start lacked blocks, and neither blocks nor sequences have
  // changed since.
  bool AStartIsBlocked() const;
  // True if nothing may start beside the decodes, because they take all the time per token.
  bool PaceHoldsBack() const;
  // Starts the first waiting sequence if it fits and goes before `rival` (or `rival` is null).
  // Otherwise returns null.
  Sequence* StartNext(const Sequence* rival);
  // The first of the sequences that may start: in the fair order, or in the policy's order at every
  // sixteenth start.
  Sequence* FirstWaiting() const;
  // True if the remaining slots are reserved for other tenants.
  bool KeptFrom(const Sequence& sequence) const;
  bool StartIfFits(Sequence& sequence);
  void AddStarted(const Sequence& sequence, Residency& residency);

  // Plans a chunk of up to so many tokens, and returns how many. Fewer if blocks are short in a
  // group with a window; 0, and no row, if there is none.
  uint32_t AddChunk(Sequence& sequence, uint32_t max_tokens);
  void AddRow(Sequence& sequence, uint32_t num_tokens, uint32_t num_drafts = 0);
  void Charge(Sequence& sequence, uint32_t start, uint32_t num_tokens);
  StepPlan Commit();

  SchedulerState& state_;
  Population& population_;
  WorkerLease& lease_;
  const Instant now_;
  const size_t max_running_;
  const uint32_t block_size_tokens_;
  const uint32_t max_drafts_;

  StepPlan plan_;
  StepRecord record_;
  uint64_t num_started_ids_ = 0;  // see SchedulerConfig::max_started_ids_per_step
  uint32_t iterations_ = 1;
  bool starved_ = false;  // blocks ran short, so this step starts nothing new
  bool changed_ = false;  // a sequence was preempted or failed: a new try may find work
};

}  // namespace lockstep::router
