#include "router/core/integrity.h"

#include <algorithm>
#include <map>
#include <vector>

#include "common/instant.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

absl::Status CheckResidency(const WorkerLease& lease, const Residency& residency) {
  const auto fail = [&residency](std::string_view what) {
    return Internal("slot {}: {}", residency.slot, what);
  };
  if (residency.num_computed > residency.planned_computed) return fail("computed beyond its plan");
  if (lease.kv.BlocksFor(residency.planned_computed) > residency.blocks.num_covered()) {
    return fail("planned beyond its blocks");
  }
  const uint32_t block_size = lease.limits.block_size_tokens();
  if (uint64_t{residency.published.num_blocks} * block_size > residency.num_computed) {
    return fail("published what is not acknowledged");
  }
  for (uint32_t group = 1; group < lease.kv.num_groups() && !residency.blocks.fenced(); ++group) {
    const uint32_t num_full_blocks = residency.num_computed / block_size;
    if (residency.blocks.num_behind(group) !=
        lease.limits.kv_groups[group].NumBehind(num_full_blocks)) {
      return fail("keeps blocks behind a window, or lacks blocks of it");
    }
  }
  if (residency.owner == nullptr) return absl::OkStatus();
  const Sequence& owner = *residency.owner;
  if (residency.num_computed >= owner.num_tokens()) return fail("computed its last token");
  if (residency.min_known < owner.num_tokens()) return fail("knows less than was acknowledged");
  if (residency.planned_known < std::min(residency.min_known, owner.max_total_tokens)) {
    return fail("planned less than it will know");
  }
  if (residency.planned_known > owner.max_total_tokens) return fail("planned beyond its limit");
  if (residency.rows_in_flight == 0 && (residency.planned_known != owner.num_tokens() ||
                                        residency.planned_computed != residency.num_computed)) {
    return fail("plans and results differ with nothing in flight");
  }
  return absl::OkStatus();
}

// What the rows of a residency in flight may keep.
struct InFlight {
  uint32_t num_rows = 0;
  uint32_t min_kept = 0;
  uint32_t max_kept = 0;
};

// The bounds are exactly what the rows in flight allow. A residency that was given up plans no
// more.
absl::Status CheckBounds(const Residency& residency, const InFlight& in_flight) {
  if (residency.owner == nullptr || residency.blocks.fenced()) return absl::OkStatus();
  const Sequence& owner = *residency.owner;
  const uint32_t least = owner.num_tokens() + in_flight.min_kept;
  const uint32_t most = std::min(owner.num_tokens() + in_flight.max_kept, owner.max_total_tokens);
  if (residency.min_known == least && residency.planned_known == most) return absl::OkStatus();
  return Internal("slot {}: will know {} to {} tokens, {} to {} are recorded", residency.slot,
                  least, most, residency.min_known, residency.planned_known);
}

absl::Status CheckRows(const WorkerLease& lease, const std::vector<const Residency*>& residencies) {
  std::map<const Residency*, InFlight> rows;
  for (const StepRecord& step : lease.in_flight) {
    for (const RowRecord& row : step.rows) {
      InFlight& in_flight = rows[row.residency];
      ++in_flight.num_rows;
      in_flight.min_kept += row.min_kept;
      in_flight.max_kept += row.max_kept;
    }
  }
  for (const Residency* residency : residencies) {
    const auto found = rows.find(residency);
    const InFlight in_flight = found == rows.end() ? InFlight() : found->second;
    if (in_flight.num_rows != residency->rows_in_flight) {
      return Internal("slot {}: {} rows in flight, {} recorded", residency->slot,
                      in_flight.num_rows, residency->rows_in_flight);
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckBounds(*residency, in_flight));
    if (found != rows.end()) rows.erase(found);
  }
  return rows.empty() ? absl::OkStatus() : Internal("a step in flight runs a row that is gone");
}

absl::Status CheckSlots(const WorkerLease& lease, const Population& population) {
  std::vector<bool> taken(lease.slots.num_slots(), false);
  for (const Sequence* sequence : population.running()) {
    const SlotId slot = sequence->running()->slot;
    if (taken[slot]) return Internal("slot {}: two sequences run in it", slot);
    if (!lease.slots.IsTaken(slot)) return Internal("slot {}: runs but is free", slot);
    taken[slot] = true;
  }
  if (lease.slots.num_free() + population.running().size() != lease.slots.num_slots()) {
    return Internal("{} slots are free and {} run of {}", lease.slots.num_free(),
                    population.running().size(), lease.slots.num_slots());
  }
  return absl::OkStatus();
}

absl::Status CheckLease(const WorkerLease& lease, const Population& population) {
  std::vector<const Residency*> residencies;
  for (const Sequence* sequence : population.running()) residencies.push_back(sequence->running());
  for (const auto& residency : lease.fenced) {
    if (residency->rows_in_flight == 0)
      return Internal("slot {}: fenced by nothing", residency->slot);
    residencies.push_back(residency.get());
  }
  std::vector<const BlockTable*> tables;
  for (const Residency* residency : residencies) {
    LOCKSTEP_RETURN_IF_ERROR(CheckResidency(lease, *residency));
    tables.push_back(&residency->blocks);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRows(lease, residencies));
  LOCKSTEP_RETURN_IF_ERROR(CheckSlots(lease, population));
  return lease.kv.CheckIntegrity(tables);
}

// What the population's counts should be.
struct PopulationCounts {
  uint32_t waiting_requests = 0;
  uint64_t waiting_tokens = 0;
  uint64_t waiting_whole_tokens = 0;
  size_t waiting = 0;
  size_t running = 0;
  size_t gated = 0;
  size_t deadlines = 0;
};

absl::Status CheckSequence(const Population& population, const Sequence& sequence,
                           PopulationCounts& counts) {
  const LiveRequest& live = *sequence.request;
  const RequestKey key = live.request->key;
  if (std::holds_alternative<Gated>(sequence.state)) {
    ++counts.gated;
    if (!live.gate_open && sequence.sample_index != live.leader) return absl::OkStatus();
    return Internal("request {}, sample {}: nothing gates it", key, sequence.sample_index);
  }
  const bool runs = sequence.running() != nullptr;
  const std::vector<Sequence*>& list = runs ? population.running() : population.waiting();
  if (std::ranges::count(list, &sequence) != 1) {
    return Internal("request {}, sample {}: not exactly once in its list", key,
                    sequence.sample_index);
  }
  ++(runs ? counts.running : counts.waiting);
  return absl::OkStatus();
}

absl::Status CheckRequest(const Population& population, const LiveRequest& live,
                          PopulationCounts& counts) {
  const RequestKey key = live.request->key;
  uint32_t num_live = 0;
  uint32_t num_resident = 0;
  for (const Sequence& sequence : live.samples) {
    if (!sequence.live()) continue;
    ++num_live;
    if (sequence.running() != nullptr) ++num_resident;
    LOCKSTEP_RETURN_IF_ERROR(CheckSequence(population, sequence, counts));
  }
  if (num_live == 0) return Internal("request {}: has ended but is not forgotten", key);
  if (num_live != live.num_live || num_resident != live.num_resident) {
    return Internal("request {}: {} live and {} running samples, {} and {} recorded", key, num_live,
                    num_resident, live.num_live, live.num_resident);
  }
  if (!live.samples[live.leader].live()) return Internal("request {}: its leader has ended", key);
  if (num_resident == 0) {
    ++counts.waiting_requests;
    counts.waiting_tokens += live.num_prompt_tokens();
    if (live.request->computes_whole_prompt()) {
      counts.waiting_whole_tokens += live.num_prompt_tokens();
    }
  }
  if (live.request->deadline != Instant::InfiniteFuture()) ++counts.deadlines;
  return absl::OkStatus();
}

}  // namespace

absl::Status Population::CheckIntegrity() const {
  PopulationCounts counts;
  for (const auto& [key, live] : requests_) {
    LOCKSTEP_RETURN_IF_ERROR(CheckRequest(*this, *live, counts));
  }
  if (counts.waiting != waiting_.size() || counts.running != running_.size() ||
      counts.gated != num_gated_) {
    return Internal("a list holds a sequence that has ended");
  }
  if (counts.waiting_requests != num_waiting_requests_ ||
      counts.waiting_tokens != num_waiting_tokens_ ||
      counts.waiting_whole_tokens != num_waiting_whole_tokens_) {
    return Internal("{} requests wait with {} tokens, {} of whole prompts; recorded {}, {}, {}",
                    counts.waiting_requests, counts.waiting_tokens, counts.waiting_whole_tokens,
                    num_waiting_requests_, num_waiting_tokens_, num_waiting_whole_tokens_);
  }
  if (counts.deadlines != deadlines_.size()) return Internal("a deadline is missing or left over");
  if (tenants_.num_live_requests() != requests_.size() ||
      tenants_.num_running() != running_.size()) {
    return Internal("{} requests live and {} sequences run, the tenants have {} and {}",
                    requests_.size(), running_.size(), tenants_.num_live_requests(),
                    tenants_.num_running());
  }
  return tenants_.CheckIntegrity();
}

absl::Status CheckSchedulerIntegrity(const SchedulerState& state) {
  LOCKSTEP_RETURN_IF_ERROR(state.population.CheckIntegrity());
  if (state.lease != nullptr) return CheckLease(*state.lease, state.population);
  if (!state.population.running().empty()) return Internal("a sequence runs without a worker");
  return absl::OkStatus();
}

}  // namespace lockstep::router
