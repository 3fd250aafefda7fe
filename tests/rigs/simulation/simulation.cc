#include "tests/rigs/simulation/simulation.h"

#include <absl/container/flat_hash_map.h>
#include <prometheus/registry.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "common/check.h"
#include "common/hash.h"
#include "common/instant.h"
#include "router/core/policy/priority_policy.h"
#include "router/engine/router_metrics.h"
#include "router/fleet/fleet.h"
#include "router/workers/shard.h"
#include "tests/rigs/random_draws.h"
#include "tests/rigs/simulation/shared_cache.h"

namespace lockstep::bench {
namespace {

constexpr absl::Duration kLastWait = absl::Hours(1);
constexpr size_t kMaxPendingOutputBytes = 1 << 20;

double Imbalance(const std::vector<SimulatedWorker::Totals>& workers,
                 absl::Duration SimulatedWorker::Totals::* load) {
  double sum = 0;
  double most = 0;
  for (const SimulatedWorker::Totals& worker : workers) {
    sum += absl::ToDoubleSeconds(worker.*load);
    most = std::max(most, absl::ToDoubleSeconds(worker.*load));
  }
  return sum > 0 ? most * static_cast<double>(workers.size()) / sum : 0;
}

// Adds the CPU time of its life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += CpuSeconds() - start_; }

 private:
  static double CpuSeconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  double& seconds_;
  const double start_ = CpuSeconds();
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);
  SimulationReport Run();

 private:
  struct Router {
    std::shared_ptr<router::Admission> admission;
    std::unique_ptr<router::Fleet> fleet;
  };
  struct Side {
    Router* router = nullptr;
    uint32_t seat = 0;  // in the router's fleet
    std::unique_ptr<SimulatedWorker> worker;
    std::unique_ptr<router::Replica> replica;
    Instant timer = Instant::InfiniteFuture();  // the next one that was set
  };
  struct Client {
    uint32_t trace = 0;
    Instant arrival;
    std::shared_ptr<router::Outbox> outbox;
    std::vector<TokenId> expected;
    size_t num_read = 0;
    bool admitted = false;
  };

  void ShareWorkers();
  void AddReplica(uint32_t index);
  Router& RouterFor(uint32_t trace, const Turn& turn);
  router::Inbox& InboxOf(const Side& side) { return side.router->fleet->inbox(side.seat); }
  void Handle(const Event& event);
  void Arrive(uint32_t trace);
  void Submit(uint32_t trace, Turn turn);
  void Read(RequestKey key);
  void ReadTokens(const router::SampleOutput& sample, Client& client);
  void Finish(RequestKey key, const Client& client, const absl::Status& status);
  void ProcessPosted();
  void SetTimer(uint32_t index);
  ServiceReport& ReportOf(const Client& client) { return report_.by_trace[client.trace]; }
  void SumUp();

  const SimulationOptions options_;
  SimulationReport report_;
  EventQueue events_;
  prometheus::Registry registry_;
  router::RouterMetrics metrics_;
  std::vector<std::unique_ptr<Router>> routers_;  // those with workers
  RandomDraws spreading_;
  SharedCache shared_cache_;
  uint64_t num_shared_hit_tokens_ = 0;
  std::vector<Side> sides_;
  std::deque<uint32_t> posted_;
  std::vector<Trace> traces_;
  uint32_t num_open_traces_ = 0;
  Instant last_arrival_ = Instant();
  absl::flat_hash_map<RequestKey, Client> clients_;
  RequestKey next_key_ = 1;
};

Simulation::Simulation(const SimulationOptions& options)
    : options_(options),
      metrics_(registry_, "simulated"),
      spreading_(options.seed),
      shared_cache_(uint64_t{options.num_workers} * options.worker.num_blocks,
                    options.worker.block_size_tokens),
      sides_(options.num_workers) {
  report_.by_trace.resize(options.traces.size());
  ShareWorkers();
  for (uint32_t i = 0; i < options.num_workers; ++i) AddReplica(i);
  for (uint32_t i = 0; i < options.traces.size(); ++i) {
    const Trace& trace = traces_.emplace_back(options.traces[i]);
    if (!trace.NextAt().has_value()) continue;
    ++num_open_traces_;
    events_.Post(Instant() + *trace.NextAt(), EventKind::kArrival, i);
  }
}

void Simulation::ShareWorkers() {
  std::vector<std::string> addresses;
  for (uint32_t i = 0; i < options_.num_workers; ++i) {
    addresses.push_back(fmt::format("worker-{}:50061", i));
  }
  std::vector<std::vector<uint32_t>> workers(options_.num_routers);
  for (uint32_t i = 0; i < options_.num_routers; ++i) {
    const router::Shard shard = {.index = i, .count = options_.num_routers};
    const std::vector<uint32_t> ranks = router::EvenShardRanks(shard, addresses);
    for (uint32_t worker = 0; worker < ranks.size(); ++worker) {
      if (ranks[worker] == 0) workers[i].push_back(worker);
    }
  }
  for (const std::vector<uint32_t>& mine : workers) {
    report_.workers_of_router.push_back(static_cast<uint32_t>(mine.size()));
    if (mine.empty()) continue;
    const auto& router = routers_.emplace_back(std::make_unique<Router>(
        router::Admission::Make(options_.admission),
        std::make_unique<router::Fleet>(options_.placement, static_cast<uint32_t>(mine.size()))));
    for (uint32_t seat = 0; seat < mine.size(); ++seat) {
      sides_[mine[seat]].router = router.get();
      sides_[mine[seat]].seat = seat;
    }
  }
}

Simulation::Router& Simulation::RouterFor(uint32_t trace, const Turn& turn) {
  const uint64_t drawn = options_.spreading == Spreading::kRandom
                             ? spreading_.Bits()
                             : CombineHashes(trace, turn.conversation);
  return *routers_[drawn % routers_.size()];
}

void Simulation::AddReplica(uint32_t index) {
  Side& side = sides_[index];
  router::Inbox& inbox = InboxOf(side);
  inbox.SetOnPost([this, index] { posted_.push_back(index); });
  side.worker = std::make_unique<SimulatedWorker>(
      index, options_.worker, options_.faults, options_.seed,
      SimulatedWorker::Surroundings{.events = &events_, .sink = &inbox});
  side.replica = std::make_unique<router::Replica>(
      options_.replica, router::MakePriorityPolicy(options_.priority_ageing),
      router::ReplicaPlace{.clock = &events_,
                           .link = side.worker.get(),
                           .metrics = &metrics_,
                           .worker = fmt::format("simulated:{}", index),
                           .fleet = side.router->fleet.get(),
                           .index = side.seat});
}

SimulationReport Simulation::Run() {
  while (num_open_traces_ > 0 || !clients_.empty()) {
    const Event event = events_.Take();
    if (num_open_traces_ == 0 && event.at > last_arrival_ + kLastWait) break;
    Handle(event);
    ProcessPosted();
  }
  report_.span = events_.Now() - Instant();
  // Nothing fails any more, and what was given up comes back.
  while (!events_.empty()) {
    const Event event = events_.Take();
    if (event.kind == EventKind::kFault) continue;
    Handle(event);
    ProcessPosted();
  }
  SumUp();
  return std::move(report_);
}

void Simulation::Handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kArrival:
      return Arrive(event.who);
    case EventKind::kTimer:
      if (sides_[event.who].timer != event.at) return;
      sides_[event.who].timer = Instant::InfiniteFuture();
      if (sides_[event.who].replica->NextWakeup() <= event.at) {
        return InboxOf(sides_[event.who]).Wake();
      }
      return SetTimer(event.who);
    default:
      return sides_[event.who].worker->Handle(event);
  }
}

// Lazily: a timer that is too early is set anew when it comes.
void Simulation::SetTimer(uint32_t index) {
  Side& side = sides_[index];
  const Instant wakeup = side.replica->NextWakeup();
  if (wakeup >= side.timer || wakeup == Instant::InfiniteFuture()) return;
  side.timer = std::max(wakeup, events_.Now());
  events_.Post(side.timer, EventKind::kTimer, index);
}

void Simulation::ProcessPosted() {
  const Stopwatch stopwatch(report_.router_seconds);
  while (!posted_.empty()) {
    const uint32_t index = posted_.front();
    posted_.pop_front();
    sides_[index].replica->Process(InboxOf(sides_[index]).Take());
    SetTimer(index);
  }
}

// --- clients ---

void Simulation::Arrive(uint32_t trace) {
  last_arrival_ = events_.Now();
  Submit(trace, traces_[trace].Next());
  if (const std::optional<absl::Duration> next = traces_[trace].NextAt()) {
    events_.Post(Instant() + *next, EventKind::kArrival, trace);
  } else {
    --num_open_traces_;
  }
}

void Simulation::Submit(uint32_t trace, Turn turn) {
  const std::string& tenant = options_.traces[trace].tenant;
  ServiceReport& report = report_.by_trace[trace];
  ++report.num_requests;
  num_shared_hit_tokens_ += shared_cache_.Serve(tenant, turn.prompt, turn.output);
  report.num_prompt_tokens += turn.prompt.size();
  Router& router = RouterFor(trace, turn);
  router::Rejection rejection{};
  auto ticket = router.admission->TryAdmit(turn.prompt.size(), "", rejection);
  if (!ticket.ok()) {
    ++report.num_refused;
    return;
  }
  const RequestKey key = next_key_++;
  auto request = std::make_shared<router::Request>();
  request->key = key;
  request->tenant = tenant;
  request->prefix_root.salt = tenant;
  request->arrival = events_.Now();
  request->sampling.temperature = 0;
  request->sampling.max_new_tokens = static_cast<uint32_t>(turn.output.size());
  request->prompt_tokens = std::move(turn.prompt);
  Client& client = clients_[key];
  client.trace = trace;
  client.arrival = events_.Now();
  client.expected = std::move(turn.output);
  client.outbox =
      std::make_shared<router::Outbox>(kMaxPendingOutputBytes, [this, key] { Read(key); });
  const Stopwatch stopwatch(report_.router_seconds);
  router.fleet->Submit(
      {.request = std::move(request), .outbox = client.outbox, .ticket = *std::move(ticket)});
}

void Simulation::Read(RequestKey key) {
  const auto found = clients_.find(key);
  LOCKSTEP_CHECK(found != clients_.end(), "request {} goes on after its end", key);
  Client& client = found->second;
  const router::RequestOutput output = client.outbox->Take();
  if (output.start.has_value()) {
    LOCKSTEP_CHECK(!client.admitted, "request {} is admitted twice", key);
    client.admitted = true;
    ReportOf(client).num_cached_tokens += output.start->num_cached_tokens;
  }
  for (const router::SampleOutput& sample : output.samples) ReadTokens(sample, client);
  if (output.end.has_value()) Finish(key, client, *output.end);
}

void Simulation::ReadTokens(const router::SampleOutput& sample, Client& client) {
  ServiceReport& report = ReportOf(client);
  if (client.num_read == 0 && !sample.tokens.empty()) {
    report.first_token_seconds.push_back(
        static_cast<float>(absl::ToDoubleSeconds(events_.Now() - client.arrival)));
    if (events_.Now() - client.arrival <= options_.good_first_token) ++report.num_in_time;
  }
  for (const TokenId token : sample.tokens) {
    if (client.num_read >= client.expected.size()) {
      ++report.num_extra_tokens;
    } else if (token != client.expected[client.num_read++]) {
      ++report.num_wrong_tokens;
    }
  }
  report.num_output_tokens += sample.tokens.size();
}

void Simulation::Finish(RequestKey key, const Client& client, const absl::Status& status) {
  ServiceReport& report = ReportOf(client);
  report_.hash = CombineHashes(report_.hash, key);
  report_.hash =
      CombineHashes(report_.hash, absl::ToInt64Nanoseconds(events_.Now().since_origin()));
  if (status.ok()) {
    report.num_missing_tokens += client.expected.size() - client.num_read;
  } else if (client.admitted) {
    ++report.num_failed;
  } else {
    ++report.num_refused;
  }
  clients_.erase(key);
}

// --- the report ---

void Simulation::SumUp() {
  for (const auto& [key, client] : clients_) ++ReportOf(client).num_unfinished;
  ServiceReport& all = report_.all;
  for (const ServiceReport& part : report_.by_trace) {
    all.num_requests += part.num_requests;
    all.num_refused += part.num_refused;
    all.num_failed += part.num_failed;
    all.num_unfinished += part.num_unfinished;
    all.num_in_time += part.num_in_time;
    all.num_prompt_tokens += part.num_prompt_tokens;
    all.num_cached_tokens += part.num_cached_tokens;
    all.num_output_tokens += part.num_output_tokens;
    all.num_wrong_tokens += part.num_wrong_tokens;
    all.num_extra_tokens += part.num_extra_tokens;
    all.num_missing_tokens += part.num_missing_tokens;
    all.first_token_seconds.insert(all.first_token_seconds.end(), part.first_token_seconds.begin(),
                                   part.first_token_seconds.end());
  }
  report_.shared_cache_hit_ratio =
      static_cast<double>(num_shared_hit_tokens_) /
      static_cast<double>(std::max<uint64_t>(1, all.num_prompt_tokens));
  for (const Side& side : sides_) {
    report_.workers.push_back(side.worker->totals());
    report_.hash = CombineHashes(report_.hash, side.worker->totals().hash);
    const router::ReplicaStatus status = side.replica->board().status();
    report_.num_leaked +=
        status.live_requests + status.scheduler.used_blocks + status.scheduler.fenced_blocks;
    for (const router::BlockCounts& group : status.scheduler.further_groups) {
      report_.num_leaked += group.used + group.fenced;
    }
  }
}

}  // namespace

double ServiceReport::FirstToken(double share) const {
  if (first_token_seconds.empty()) return 0;
  std::vector<float> sorted = first_token_seconds;
  const auto at = static_cast<ptrdiff_t>(share * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), sorted.begin() + at, sorted.end());
  return sorted[at];
}

double SimulationReport::work_imbalance() const {
  return Imbalance(workers, &SimulatedWorker::Totals::work);
}

double SimulationReport::sequence_imbalance() const {
  return Imbalance(workers, &SimulatedWorker::Totals::sequence_time);
}

SimulationReport Simulate(const SimulationOptions& options) { return Simulation(options).Run(); }

}  // namespace lockstep::bench
