#include "tests/router/core/properties/scheduler_world.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "common/hash.h"
#include "common/instant.h"
#include "common/status.h"
#include "router/core/policy/priority_policy.h"
#include "router/core/requests/first_token.h"
#include "tests/router/core/fcfs_policy.h"

namespace lockstep::router::testing {

SchedulerWorld::SchedulerWorld(uint64_t seed, EventCounts& counts, Kind kind)
    : random_(seed), kind_(kind), counts_(counts) {
  for (int i = 0; i < 3; ++i) {
    std::vector<TokenId>& text = texts_.emplace_back();
    for (int j = 0; j < 64; ++j) text.push_back(random_.Between(0, kVocabularySize - 1));
  }
  config_ = MakeConfig();
  limits_ = MakeLimits();
  const bool fcfs = random_.OneIn(2);
  const absl::Duration ageing = absl::Seconds(random_.Between(1, 20));
  const auto make_policy = [&] { return fcfs ? MakeFcfsPolicy() : MakePriorityPolicy(ageing); };
  order_ = make_policy();
  scheduler_ = std::make_unique<Scheduler>(config_, make_policy());
}

absl::Status SchedulerWorld::RandomOperation() {
  using Operation = absl::Status (SchedulerWorld::*)();
  struct Weighted {
    uint32_t weight;
    Operation operation;
  };
  static constexpr std::array<Weighted, 10> kOperations = {{
      {800, &SchedulerWorld::Submit},
      {5000, &SchedulerWorld::Plan},
      {2200, &SchedulerWorld::Deliver},
      {100, &SchedulerWorld::Cancel},
      {140, &SchedulerWorld::StopString},
      {240, &SchedulerWorld::PassTime},
      {60, &SchedulerWorld::FailUnserved},
      {20, &SchedulerWorld::LoseWorker},
      {20, &SchedulerWorld::DrainWorker},
      {20, &SchedulerWorld::DeliverCorrupted},
  }};
  static constexpr uint32_t kExecuteWeight = 2600;
  uint32_t total = kExecuteWeight;
  for (const Weighted& entry : kOperations) total += entry.weight;

  absl::Status status;
  uint32_t draw = random_.Between(0, total - 1);
  if (worker_ == nullptr && random_.OneIn(4)) {
    status = Attach();
  } else if (draw < kExecuteWeight) {
    status = Execute(/*with_faults=*/true);
  } else {
    draw -= kExecuteWeight;
    size_t i = 0;
    while (draw >= kOperations[i].weight) draw -= kOperations[i++].weight;
    status = (this->*kOperations[i].operation)();
  }
  LOCKSTEP_RETURN_IF_ERROR(status);
  return CheckEverything();
}

absl::Status SchedulerWorld::Submit() {
  const std::shared_ptr<const Request> request = MakeRequest();
  const SchedulerStats stats = scheduler_->Stats();
  const size_t num_prompt = request->prompt_tokens.size();
  const bool fits =
      worker_ == nullptr ||
      (num_prompt + request->sampling.max_new_tokens <= limits_.max_context_tokens &&
       num_prompt <= size_t{limits_.kv_groups[0].num_blocks} * limits_.block_size_tokens());
  const bool never = !fits || num_prompt > config_.max_waiting_tokens;
  const bool full = QueueIsFull(num_prompt);
  const absl::Status status = scheduler_->Submit(request, now_);
  if (scheduler_->Stats().refused_for_first_token > stats.refused_for_first_token) {
    Count("refused: first token too late");
    const bool waits = stats.waiting_sequences > 0 || stats.prefill_tokens > 0;
    return waits && !never && !full && absl::IsResourceExhausted(status)
               ? absl::OkStatus()
               : Annotate(Internal("{}", status.ToString()), "submit: nothing waits");
  }
  if (scheduler_->Stats().refused_for_deadline > stats.refused_for_deadline) {
    Count("refused: the deadline is too near");
    const bool right = !never && !full && absl::IsResourceExhausted(status) &&
                       scheduler_->Stats().refused_for_deadline == stats.refused_for_deadline + 1;
    return right ? CheckDeadlineRefusal(*request)
                 : Annotate(Internal("{}", status.ToString()), "submit: no matter of deadlines");
  }
  const absl::StatusCode expected = never  ? absl::StatusCode::kInvalidArgument
                                    : full ? absl::StatusCode::kResourceExhausted
                                           : absl::StatusCode::kOk;
  if (status.code() != expected) return Annotate(Internal("{}", status.ToString()), "submit");
  if (never) Count("refused: cannot fit");
  if (!never && full) Count("refused: queue full");
  if (!status.ok()) return absl::OkStatus();

  Count("requests");
  if (request->num_samples > 1) Count("requests with n > 1");
  if (request->priority != 0) Count("requests with priority");
  Client client{.request = request,
                .samples = {},
                .poison = random_.OneIn(200),
                .late_poison = random_.OneIn(100),
                .kills = random_.OneIn(2)};
  for (uint32_t i = 0; i < request->num_samples; ++i) {
    client.samples.push_back({.reference = RunAlone(*request, i), .delivered = {}});
  }
  clients_.emplace(request->key, std::move(client));
  return absl::OkStatus();
}

// Requests that have run before take no room.
bool SchedulerWorld::QueueIsFull(size_t num_prompt_tokens) const {
  uint32_t num_requests = 0;
  uint64_t num_tokens = num_prompt_tokens;
  for (const auto& [key, client] : clients_) {
    if (client.admitted) continue;
    ++num_requests;
    num_tokens += client.request->prompt_tokens.size();
  }
  return num_requests >= config_.max_waiting_requests || num_tokens > config_.max_waiting_tokens;
}

absl::Status SchedulerWorld::CheckDeadlineRefusal(const Request& request) {
  if (request.deadline == Instant::InfiniteFuture()) return Internal("refused without a deadline");
  if (!measured_prompt_) return Internal("refused for its deadline, and nothing was measured");
  uint64_t num_tokens = 0;
  for (const auto& [key, client] : clients_) {
    const Request& other = *client.request;
    if (other.tenant != request.tenant) continue;
    PolicyView earlier = ViewOf(other);
    earlier.order = key;
    if (!order_->Before(earlier, ViewOf(request), now_)) continue;
    for (const Sample& sample : client.samples) {
      if (!sample.ended && !sample.started) num_tokens += other.prompt_tokens.size();
    }
  }
  if (num_tokens == 0) return Internal("refused for its deadline, and nothing goes before it");
  if (request.deadline - now_ > static_cast<double>(num_tokens) * compute_on_lease_ / 2) {
    return Internal("refused for its deadline, and there is time");
  }
  auto hasty = std::make_shared<Request>(request);
  hasty->deadline = now_ + (request.deadline - now_) / 2;
  const uint64_t num_refused = scheduler_->Stats().refused_for_deadline;
  if (scheduler_->Submit(hasty, now_).ok() ||
      scheduler_->Stats().refused_for_deadline != num_refused + 1) {
    return Internal("refused for its deadline, and an earlier one is taken");
  }
  return absl::OkStatus();
}

absl::Status SchedulerWorld::Plan() {
  std::optional<StepPlan> plan = scheduler_->NextStep(now_);
  if (!plan.has_value()) return OnNoPlan();
  const size_t in_flight = planned_.size() + executed_.size();
  if (worker_ == nullptr) return Internal("a plan without a worker");
  if (worker_drains_ && !plan->started.empty()) return Internal("started on a draining worker");
  if (plan->rows.empty()) Count("steps without rows");
  const uint32_t max_in_flight = std::min(config_.max_steps_in_flight, limits_.max_steps_in_flight);
  if (in_flight >= max_in_flight) return Internal("more steps in flight than allowed");
  Count("plans with " + std::to_string(in_flight) + " in flight");
  if (scheduler_->Stats().fenced_blocks > 0) Count("plans with fenced blocks");
  LOCKSTEP_RETURN_IF_ERROR(observer_->OnPlan(*plan));
  Digest(*plan);
  if (plan->resync) slot_owners_.clear();
  uint64_t num_started_ids = 0;
  for (const StartedSlot& started : plan->started) {
    if (num_started_ids >= config_.max_started_ids_per_step) {
      return Internal("one more sequence starts behind {} ids", num_started_ids);
    }
    num_started_ids +=
        started.known_tokens.size() + started.request->sampling.stop_token_ids.size();
    LOCKSTEP_RETURN_IF_ERROR(OnStarted(started));
  }
  Planned planned{.plan = *std::move(plan), .owners = {}};
  for (const RunRow& row : planned.plan.rows) planned.owners.push_back(slot_owners_[row.slot]);
  planned_.push_back(std::move(planned));
  return absl::OkStatus();
}

absl::Status SchedulerWorld::OnNoPlan() {
  if (worker_ == nullptr || !planned_.empty() || !executed_.empty()) return absl::OkStatus();
  if (!worker_->refusing() && worker_->num_occupied_slots() > 0) {
    const Instant told_at = scheduler_->NextStepAt();
    if (told_at <= now_ || told_at > now_ + absl::Seconds(1)) {
      return Internal("the worker holds {} slots and nobody tells it to let them go",
                      worker_->num_occupied_slots());
    }
    Count("slots that were given up, and nobody told yet");
    LOCKSTEP_RETURN_IF_ERROR(PassTime(told_at - now_));
    return Plan();
  }
  // Preempting and failing may have been all that was possible.
  if (scheduler_->Idle()) return absl::OkStatus();
  if (!worker_drains_) {
    return Internal("stuck: work is left, nothing is in flight, nothing is planned");
  }
  if (scheduler_->Stats().running_sequences > 0) return Internal("stuck on a draining worker");
  Count("workers that left with work waiting");
  return LoseWorker();
}

absl::Status SchedulerWorld::OnStarted(const StartedSlot& started) {
  const Owner owner = {started.request->key, started.sample_index};
  if (AnyInFlight([&owner](const Owner& other) { return other == owner; })) {
    return Internal("request {}: started while a step in flight runs it", owner.first);
  }
  slot_owners_[started.slot] = owner;
  clients_.at(owner.first).samples[owner.second].started = true;
  std::vector<TokenId> known = started.request->prompt_tokens;
  std::ranges::copy(clients_.at(owner.first).samples[owner.second].delivered,
                    std::back_inserter(known));
  if (started.known_tokens != known) {
    return Internal("request {}: started from other tokens than were delivered", owner.first);
  }
  if (known.size() > started.request->prompt_tokens.size()) Count("restarts");
  if (started.num_computed_tokens > 0) Count("prefix hits");
  if (started.num_computed_tokens > 0 && !started.request->prefix_root.salt.empty()) {
    Count("prefix hits under a salt");
  }
  return absl::OkStatus();
}

void SchedulerWorld::Digest(const StepPlan& plan) {
  const auto add = [this](uint64_t value) { plan_digest_ = CombineHashes(plan_digest_, value); };
  const auto add_all = [&add](const std::vector<uint32_t>& values) {
    add(values.size());
    for (uint32_t value : values) add(value);
  };
  add(plan.step_id);
  add(plan.decode_iterations * 4 + (plan.resync ? 2 : 0) + (plan.repeat_rows ? 1 : 0));
  add_all(plan.released);
  for (const StartedSlot& started : plan.started) {
    add(started.slot);
    add(started.request->key * 8 + started.sample_index);
    add(started.num_computed_tokens);
    add_all(started.known_tokens);
    for (const GroupBlocks& blocks : started.blocks) add_all(blocks.ids);
  }
  for (const RunRow& row : plan.rows) {
    add(row.slot);
    add(row.num_tokens);
    add(row.max_drafts);
    for (const GroupBlocks& blocks : row.new_blocks) add_all(blocks.ids);
  }
}

void SchedulerWorld::NoteRefused(const Planned& planned) {
  for (const Owner& owner : planned.owners) {
    const auto client = clients_.find(owner.first);
    if (client == clients_.end()) continue;
    Sample& sample = client->second.samples[owner.second];
    ++sample.num_refusals;
    if (planned.owners.size() == 1) sample.refused_alone = true;
  }
}

absl::Status SchedulerWorld::Execute(bool with_faults) {
  if (planned_.empty()) return absl::OkStatus();
  const bool trails = worker_->refusing() && !planned_.front().plan.resync;
  if (!trails && RunsPoison(planned_.front(), /*kills=*/true)) {
    Count("workers killed by a request");
    return LoseWorker();
  }
  const Planned planned = std::move(planned_.front());
  planned_.pop_front();
  ModelWorker::Faults faults;
  with_faults = with_faults && !planned.plan.rows.empty();
  if (with_faults && random_.OneIn(60)) faults.refuse = true;
  if (with_faults && random_.OneIn(40)) {
    faults.failing_slot = planned.plan.rows[random_.Between(0, planned.plan.rows.size() - 1)].slot;
    faults.num_tokens_before_failure = random_.Between(0, 2);
  }
  if (RunsPoison(planned, /*kills=*/false)) faults.refuse = true;
  if (kind_.has_drafts) faults.draft_seed = random_.Between(0, 1u << 30);
  ModelWorker::Executed executed;
  LOCKSTEP_RETURN_IF_ERROR(worker_->Execute(planned.plan, faults, executed));
  executed.outcome.timings.compute = absl::Microseconds(random_.Between(0, 20000));
  if (!executed.outcome.refusal.ok()) {
    Count(trails ? "refused steps behind a refusal" : "refused steps");
    if (!trails) NoteRefused(planned);
  }
  for (const RowOutcome& row : executed.outcome.rows) {
    if (row.error.ok()) continue;
    Count("failed rows");
    const size_t i =
        std::ranges::find(planned.plan.rows, row.slot, &RunRow::slot) - planned.plan.rows.begin();
    const auto client = clients_.find(planned.owners[i].first);
    if (client != clients_.end())
      client->second.samples[planned.owners[i].second].row_failed = true;
  }
  executed_.push_back({std::move(executed), planned.owners, planned.plan.num_prefill_tokens});
  return absl::OkStatus();
}

absl::Status SchedulerWorld::Deliver() {
  if (executed_.empty()) return absl::OkStatus();
  const ModelWorker::Executed executed = std::move(executed_.front().step);
  const bool has_prompt = executed_.front().num_prefill_tokens > 0;
  executed_.pop_front();
  if (executed.outcome.refusal.ok()) {
    observer_->OnAcknowledged(executed);
    const absl::Duration compute = executed.outcome.timings.compute;
    compute_on_lease_ += compute;
    if (has_prompt && compute > absl::ZeroDuration()) measured_prompt_ = true;
  } else {
    observer_->OnRefused();
  }
  return scheduler_->Apply(executed.outcome, now_);
}

absl::Status SchedulerWorld::Drain() {
  constexpr int kManySteps = 20000;
  for (int i = 0; i < kManySteps && !scheduler_->Idle(); ++i) {
    if (worker_ == nullptr) LOCKSTEP_RETURN_IF_ERROR(Attach());
    LOCKSTEP_RETURN_IF_ERROR(Plan());
    LOCKSTEP_RETURN_IF_ERROR(Execute(/*with_faults=*/false));
    LOCKSTEP_RETURN_IF_ERROR(Deliver());
    LOCKSTEP_RETURN_IF_ERROR(CheckEverything());
  }
  if (!scheduler_->Idle()) return Internal("not idle after {} fault-free steps", kManySteps);
  if (worker_ != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(Plan());
    LOCKSTEP_RETURN_IF_ERROR(Execute(/*with_faults=*/false));
    LOCKSTEP_RETURN_IF_ERROR(Deliver());
    LOCKSTEP_RETURN_IF_ERROR(Plan());
  }
  const SchedulerStats stats = scheduler_->Stats();
  if (worker_ != nullptr &&
      stats.free_blocks + stats.cached_blocks != limits_.kv_groups[0].num_blocks) {
    return Internal("drained, but {} blocks are used and {} fenced", stats.used_blocks,
                    stats.fenced_blocks);
  }
  Count("preemptions", stats.preemptions);
  Count("rolled back sequences", stats.rollbacks);
  Count("wasted rows", stats.wasted_rows);
  CountWorker();
  return absl::OkStatus();
}

}  // namespace lockstep::router::testing
