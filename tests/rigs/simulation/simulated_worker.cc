#include "tests/rigs/simulation/simulated_worker.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/check.h"
#include "common/instant.h"
#include "router/workers/worker_contract.h"
#include "tests/rigs/simulation/text_model.h"

namespace lockstep::bench {
namespace {

constexpr absl::Duration kReconnect = absl::Milliseconds(50);

uint64_t SeedOf(uint64_t seed, uint32_t index) { return CombineHashes(seed, index); }

}  // namespace

SimulatedWorker::SimulatedWorker(uint32_t index, const WorkerOptions& options,
                                 const FaultOptions& faults, uint64_t seed,
                                 Surroundings surroundings)
    : index_(index),
      options_(options),
      faults_(faults),
      surroundings_(surroundings),
      random_(SeedOf(seed, index)),
      slots_(options.max_slots) {
  surroundings_.events->Post(surroundings_.events->Now(), EventKind::kClaim, index_, life_);
  ScheduleFault();
}

void SimulatedWorker::Handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kFault:
      Fail();
      return ScheduleFault();
    case EventKind::kRecover:
      slowness_ = 1;
      return;
    case EventKind::kClaim:
      if (event.life == life_) Claim();
      return;
    case EventKind::kResult:
      if (event.life == life_) DeliverNext();
      return;
    case EventKind::kArrival:
    case EventKind::kTimer:
      break;
  }
  LOCKSTEP_CHECK(false, "not an event of a worker");
}

// --- leases ---

void SimulatedWorker::Claim() {
  if (epoch_ != 0) return;
  // It lost its sequences before it could leave.
  if (draining_) return EndLife("the worker has drained");
  const Instant now = surroundings_.events->Now();
  if (now < unreachable_until_) {
    return surroundings_.events->Post(unreachable_until_, EventKind::kClaim, index_, life_);
  }
  epoch_ = ++last_epoch_;
  router::LinkUp up{.epoch = epoch_, .description = {}};
  up.description.set_protocol_version(router::kStepProtocolVersion);
  up.description.set_incarnation(life_);
  up.description.set_numerics_id(1);
  up.description.set_weights_fingerprint(1);
  up.description.set_device("simulated");
  up.description.set_max_slots(options_.max_slots);
  up.description.set_max_step_tokens(options_.max_step_tokens);
  up.description.set_max_context_tokens(options_.max_context_tokens);
  up.description.set_vocab_size(kVocabularySize);
  up.description.set_max_steps_in_flight(8);
  up.description.set_max_decode_iterations(1);
  up.description.set_max_draft_tokens(options_.max_draft_tokens);
  worker::v1::KvGroup* const group = up.description.add_kv_groups();
  group->set_block_size_tokens(options_.block_size_tokens);
  group->set_num_blocks(options_.num_blocks);
  if (options_.window_tokens > 0) {
    worker::v1::KvGroup* const window = up.description.add_kv_groups();
    window->set_block_size_tokens(options_.block_size_tokens);
    window->set_num_blocks(options_.window_blocks);
    window->set_window_tokens(options_.window_tokens);
  }
  surroundings_.sink->OnLinkEvent(std::move(up));
}

void SimulatedWorker::DropLease(uint64_t epoch, const absl::Status& /*reason*/) {
  if (epoch != epoch_) return;
  epoch_ = 0;
  ClearSlots();
  surroundings_.events->Post(surroundings_.events->Now() + kReconnect, EventKind::kClaim, index_,
                             life_);
}

void SimulatedWorker::ClearSlots() {
  NoteSlots(-static_cast<int>(num_taken_));
  slots_.assign(options_.max_slots, {});
  last_rows_.clear();
  last_draft_limits_.clear();
}

void SimulatedWorker::NoteSlots(int change) {
  const Instant now = surroundings_.events->Now();
  totals_.sequence_time += (now - taken_since_) * num_taken_;
  taken_since_ = now;
  num_taken_ += change;
}

void SimulatedWorker::DeliverNext() {
  if (pending_.empty()) return;
  const Instant now = surroundings_.events->Now();
  Pending& next = pending_.front();
  // A fault delayed it after all.
  if (next.at > now) {
    return surroundings_.events->Post(next.at, EventKind::kResult, index_, life_);
  }
  totals_.hash = CombineHashes(totals_.hash, next.result.step_id());
  totals_.hash = CombineHashes(totals_.hash, absl::ToInt64Nanoseconds(now.since_origin()));
  for (const TokenId token : next.result.token_ids()) {
    totals_.hash = CombineHashes(totals_.hash, token);
  }
  next.result.set_draining(draining_);
  // Also of a lease that is over: the router must not care.
  surroundings_.sink->OnLinkEvent(router::LinkResult{std::move(next.result)});
  pending_.pop_front();
  if (draining_ && pending_.empty() && num_taken_ == 0) EndLife("the worker has drained");
}

// --- faults ---

void SimulatedWorker::ScheduleFault() {
  if (faults_.mean_between == absl::InfiniteDuration()) return;
  surroundings_.events->Post(
      surroundings_.events->Now() + random_.Exponential(faults_.mean_between), EventKind::kFault,
      index_);
}

void SimulatedWorker::Fail() {
  const uint32_t sum =
      faults_.crashes + faults_.hangs + faults_.partitions + faults_.stragglers + faults_.drains;
  uint32_t draw = random_.In({0, sum - 1});
  const Instant now = surroundings_.events->Now();
  const absl::Duration outage = absl::Milliseconds(random_.In(faults_.outage_ms));
  const auto is = [&draw](uint32_t weight) {
    if (draw < weight) return true;
    draw -= weight;
    return false;
  };
  ++totals_.num_faults;
  if (is(faults_.crashes)) {
    EndLife("the worker crashed");
  } else if (is(faults_.hangs)) {
    busy_until_ = std::max(busy_until_, now) + outage;
    unreachable_until_ = std::max(unreachable_until_, busy_until_);
    for (Pending& pending : pending_) pending.at += outage;
  } else if (is(faults_.partitions)) {
    unreachable_until_ = std::max(unreachable_until_, now + outage);
    for (Pending& pending : pending_) pending.at = std::max(pending.at, unreachable_until_);
  } else if (is(faults_.stragglers)) {
    slowness_ = faults_.straggler_factor;
    surroundings_.events->Post(now + outage, EventKind::kRecover, index_);
  } else {
    draining_ = true;
    if (pending_.empty() && num_taken_ == 0) EndLife("the worker has drained");
  }
}

void SimulatedWorker::EndLife(const char* reason) {
  const Instant now = surroundings_.events->Now();
  ++life_;
  draining_ = false;
  pending_.clear();
  busy_until_ = now;
  ClearSlots();
  if (epoch_ != 0) {
    surroundings_.sink->OnLinkEvent(router::LinkDown{.epoch = std::exchange(epoch_, 0),
                                                     .reason = absl::UnavailableError(reason)});
  }
  surroundings_.events->Post(now + faults_.restart, EventKind::kClaim, index_, life_);
}

// --- steps ---

void SimulatedWorker::Send(worker::v1::StepRequest request) {
  if (request.epoch() != epoch_) return;
  worker::v1::StepResult result;
  result.set_epoch(epoch_);
  result.set_incarnation(life_);
  result.set_step_id(request.step_id());
  ApplySlots(request);
  const uint64_t num_tokens = RunRows(request, result);
  absl::Duration work;
  absl::Duration compute;
  if (!last_rows_.empty()) {
    work = options_.step_per_token * static_cast<int64_t>(num_tokens) +
           options_.step_per_sequence * static_cast<int64_t>(last_rows_.size());
    compute = (options_.step_fixed + work) * slowness_;
  }
  const Instant arrival =
      std::max(surroundings_.events->Now() + options_.link_delay, unreachable_until_);
  busy_until_ = std::max(arrival, busy_until_) + compute;
  totals_.busy += compute;
  totals_.work += work;
  totals_.num_tokens += num_tokens;
  ++totals_.num_steps;
  result.mutable_timings()->set_compute_ns(absl::ToInt64Nanoseconds(compute));
  const Instant at = std::max(busy_until_ + options_.link_delay, unreachable_until_);
  pending_.push_back({.at = at, .result = std::move(result)});
  surroundings_.events->Post(at, EventKind::kResult, index_, life_);
}

void SimulatedWorker::ApplySlots(const worker::v1::StepRequest& request) {
  if (request.resync()) ClearSlots();
  for (const uint32_t released : request.released_slots()) {
    LOCKSTEP_CHECK(slots_.at(released).taken, "slot {} is released twice", released);
    slots_[released] = {};
  }
  NoteSlots(request.started_size() - request.released_slots_size());
  for (const worker::v1::StartedSlot& started : request.started()) {
    Slot& slot = slots_.at(started.slot());
    LOCKSTEP_CHECK(!slot.taken, "slot {} is started twice", started.slot());
    const std::span<const TokenId> known(started.known_tokens().data(),
                                         static_cast<size_t>(started.known_tokens_size()));
    uint64_t text = HashOfPrompt(known.first(started.num_prompt_tokens()));
    for (const TokenId token : known.subspan(started.num_prompt_tokens())) {
      text = ExtendText(text, token);
    }
    slot = {.text = text,
            .num_known = static_cast<uint32_t>(known.size()),
            .num_computed = started.num_computed_tokens(),
            .max_total_tokens = started.sampling().max_total_tokens(),
            .taken = true,
            .num_blocks = {static_cast<uint32_t>(started.blocks_size())}};
    LOCKSTEP_CHECK(started.group_blocks_size() + 1 == static_cast<int>(num_groups()),
                   "slot {} starts with blocks of {} further groups", started.slot(),
                   started.group_blocks_size());
    for (const worker::v1::GroupBlocks& further : started.group_blocks()) {
      slot.num_blocks[1] = further.first() + static_cast<uint32_t>(further.blocks_size());
    }
    ++totals_.num_started;
  }
  ApplyGrowth(request);
}

void SimulatedWorker::ApplyGrowth(const worker::v1::StepRequest& request) {
  for (int i = 0; i < request.grown_slots_size(); ++i) {
    const uint32_t group = request.grown_groups_size() == 0 ? 0 : request.grown_groups(i);
    LOCKSTEP_CHECK(group < num_groups(), "group {} grows", group);
    slots_.at(request.grown_slots(i)).num_blocks[group] += request.grown_counts(i);
  }
}

uint64_t SimulatedWorker::RunRows(const worker::v1::StepRequest& request,
                                  worker::v1::StepResult& result) {
  if (!request.repeat_rows()) {
    last_rows_.assign(request.run_slots().begin(), request.run_slots().end());
    last_draft_limits_.assign(request.draft_limits().begin(), request.draft_limits().end());
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < last_rows_.size(); ++i) {
    const uint32_t num_tokens =
        request.run_tokens_size() == 0 ? 1 : request.run_tokens(static_cast<int>(i));
    const uint32_t draft_limit = last_draft_limits_.empty() ? 0 : last_draft_limits_[i];
    RunRow(last_rows_[i], num_tokens, draft_limit, result);
    sum += num_tokens + draft_limit;
  }
  return sum;
}

uint32_t SimulatedWorker::NumRight(uint32_t num_drafted) {
  if (options_.draft_chance < 0) return random_.In({0, num_drafted});
  uint32_t num_right = 0;
  while (num_right < num_drafted && random_.Unit() < options_.draft_chance) ++num_right;
  return num_right;
}

void SimulatedWorker::RunRow(uint32_t slot_index, uint32_t num_tokens, uint32_t draft_limit,
                             worker::v1::StepResult& result) {
  Slot& slot = slots_.at(slot_index);
  LOCKSTEP_CHECK(slot.taken, "slot {} runs and is empty", slot_index);
  if (slot.inert) return result.add_inert_slots(slot_index);
  slot.num_computed += num_tokens;
  LOCKSTEP_CHECK(slot.num_computed <= slot.num_known, "slot {} computes what it does not know",
                 slot_index);
  const uint32_t num_drafted = std::min(draft_limit, slot.max_total_tokens - slot.num_known - 1);
  const uint32_t num_written = slot.num_computed + num_drafted;
  for (uint32_t group = 0; group < num_groups(); ++group) {
    LOCKSTEP_CHECK(slot.num_blocks[group] * options_.block_size_tokens >= num_written,
                   "slot {} has {} blocks in group {} for {} tokens", slot_index,
                   slot.num_blocks[group], group, num_written);
  }
  if (slot.num_computed < slot.num_known) return;
  const uint32_t num_right = num_drafted > 0 ? NumRight(num_drafted) : 0;
  for (uint32_t i = 0; i <= num_right; ++i) {
    const TokenId token = TokenAfter(slot.text);
    slot.text = ExtendText(slot.text, token);
    result.add_token_ids(token);
  }
  result.add_sampled_slots(slot_index);
  if (options_.max_draft_tokens > 0) {
    result.add_sampled_counts(num_right + 1);
    result.add_drafted_counts(num_drafted);
  }
  totals_.num_drafted += num_drafted;
  totals_.num_kept_drafts += num_right;
  slot.num_computed += num_right;
  slot.num_known += num_right + 1;
  if (slot.num_known < slot.max_total_tokens) return;
  slot.inert = true;
  result.add_stopped_slots(slot_index);
  result.add_stop_causes(worker::v1::STOP_CAUSE_LENGTH);
}

}  // namespace lockstep::bench
