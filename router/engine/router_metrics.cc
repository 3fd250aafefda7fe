#include "router/engine/router_metrics.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "common/runtime/metrics.h"
#include "common/version.h"

namespace lockstep::router {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = prometheus::Labels;

constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
constexpr std::array<std::string_view, 7> kRejectionNames = {
    "queue_requests", "queue_tokens", "open_requests", "draining",
    "no_worker",      "deadline",     "first_token"};
constexpr std::array<std::string_view, 4> kFinishedNames = {"stop", "length", "abort", "error"};
constexpr std::array<std::string_view, 2> kStageNames = {"queued", "running"};
constexpr std::array<std::string_view, 2> kRetryNames = {"resumed", "failed"};
constexpr std::array<std::string_view, 2> kToolCallNames = {"whole", "broken"};
constexpr std::array<std::string_view, 4> kBlockStates = {"free", "used", "cached", "fenced"};
constexpr std::array<std::string_view, 2> kPhaseNames = {"prefill", "decode"};
constexpr std::array<std::string_view, 2> kOwnerNames = {"self", "other"};
constexpr std::array<std::string_view, 3> kCircuitNames = {"closed", "open", "half_open"};

// Adds series to one registry, all with the label `model`.
class Builder {
 public:
  Builder(prometheus::Registry& registry, const std::string& model)
      : registry_(registry), labels_{{"model", model}} {}

  Counter* MakeCounter(const char* name, const char* what, const Labels& labels = {}) {
    return &prometheus::BuildCounter()
                .Name(std::string("lockstep_router_") + name)
                .Help(what)
                .Labels(labels_)
                .Register(registry_)
                .Add(labels);
  }
  Gauge* MakeGauge(const char* name, const char* what, const Labels& labels = {}) {
    return &prometheus::BuildGauge()
                .Name(std::string("lockstep_router_") + name)
                .Help(what)
                .Labels(labels_)
                .Register(registry_)
                .Add(labels);
  }
  // Removes one of the series with this name.
  void Remove(const char* name, Counter* counter) {
    prometheus::BuildCounter()
        .Name(std::string("lockstep_router_") + name)
        .Labels(labels_)
        .Register(registry_)
        .Remove(counter);
  }
  void Remove(const char* name, Gauge* gauge) {
    prometheus::BuildGauge()
        .Name(std::string("lockstep_router_") + name)
        .Labels(labels_)
        .Register(registry_)
        .Remove(gauge);
  }
  template <typename Buckets>
  Histogram* MakeHistogram(const char* name, const char* what, const Buckets& buckets,
                           const Labels& labels = {}) {
    return &prometheus::BuildHistogram()
                .Name(std::string("lockstep_router_") + name)
                .Help(what)
                .Labels(labels_)
                .Register(registry_)
                .Add(labels, BucketVector(buckets));
  }
  template <size_t N>
  std::array<Counter*, N> MakeCounters(const char* name, const char* what, const char* label,
                                       const std::array<std::string_view, N>& values) {
    std::array<Counter*, N> all;
    for (size_t i = 0; i < N; ++i)
      all[i] = MakeCounter(name, what, {{label, std::string(values[i])}});
    return all;
  }
  template <size_t N>
  std::array<Gauge*, N> MakeGauges(const char* name, const char* what, const char* label,
                                   const std::array<std::string_view, N>& values,
                                   Labels labels = {}) {
    std::array<Gauge*, N> all;
    for (size_t i = 0; i < N; ++i) {
      labels[label] = values[i];
      all[i] = MakeGauge(name, what, labels);
    }
    return all;
  }

 private:
  prometheus::Registry& registry_;
  const Labels labels_;
};

}  // namespace

RouterMetrics::RouterMetrics(prometheus::Registry& registry, const std::string& model)
    : registry_(registry), model_(model) {
  MakeRequestCounts();
  MakeRequestHistograms();
  MakeTokenSeries();
  MakeStepSeries();
  MakeShardSeries();
  Builder(registry, model)
      .MakeGauge("build_info", "Always 1.",
                 {{"version", std::string(Version())}, {"commit", std::string(GitCommit())}})
      ->Set(1);
}

void RouterMetrics::MakeRequestCounts() {
  Builder b(registry_, model_);
  requests_total = b.MakeCounters(
      "requests_total", "Requests that ended, by gRPC status. Each prompt of an HTTP call is one.",
      "code", kCodeNames);
  requests_rejected_total = b.MakeCounters(
      "requests_rejected_total", "Requests refused before they wait.", "reason", kRejectionNames);
  requests_finished_total =
      b.MakeCounters("requests_finished_total", "Sequences that ended.", "reason", kFinishedNames);
  requests_cancelled_total = b.MakeCounters(
      "requests_cancelled_total", "Requests cancelled by their client.", "stage", kStageNames);
  requests_retried_total = b.MakeCounters("requests_retried_total",
                                          "Requests that outlived or failed with a lost worker.",
                                          "outcome", kRetryNames);
  tool_requests_total =
      b.MakeCounter("tool_requests_total", "Requests whose model could call tools.");
  tool_calls_total = b.MakeCounters("tool_calls_total", "Calls of tools that models wrote.",
                                    "outcome", kToolCallNames);
  queue_requests = b.MakeGauge("queue_requests", "Waiting requests: none of their sequences runs.");
  queue_tokens = b.MakeGauge("queue_tokens", "Prompt tokens of waiting requests.");
  running_requests =
      b.MakeGauge("running_requests", "Requests with at least one running sequence.");
}

void RouterMetrics::MakeRequestHistograms() {
  Builder b(registry_, model_);
  time_to_first_token_seconds =
      b.MakeHistogram("time_to_first_token_seconds", "Arrival to the first token of a sequence.",
                      kTimeToFirstTokenBucketsSeconds);
  inter_token_latency_seconds = b.MakeHistogram(
      "inter_token_latency_seconds", "Between tokens of a sequence.", kInterTokenBucketsSeconds);
  time_per_output_token_seconds =
      b.MakeHistogram("time_per_output_token_seconds", "Mean time between tokens, by sequence.",
                      kInterTokenBucketsSeconds);
  queue_wait_seconds =
      b.MakeHistogram("queue_wait_seconds", "Arrival to the first slot.", kWaitBucketsSeconds);
  request_duration_seconds = b.MakeHistogram("request_duration_seconds",
                                             "Arrival to the last token.", kWaitBucketsSeconds);
  request_prefill_seconds = b.MakeHistogram("request_prefill_seconds",
                                            "First slot to the first token.", kWaitBucketsSeconds);
  request_decode_seconds =
      b.MakeHistogram("request_decode_seconds", "First token to the end.", kWaitBucketsSeconds);
  request_inference_seconds =
      b.MakeHistogram("request_inference_seconds", "First slot to the end.", kWaitBucketsSeconds);
  request_prompt_tokens =
      b.MakeHistogram("request_prompt_tokens", "Prompt tokens of a request.", kLengthBuckets);
  request_max_tokens = b.MakeHistogram(
      "request_max_tokens", "Tokens that a request wants at most, by sequence.", kLengthBuckets);
  request_samples =
      b.MakeHistogram("request_samples", "Sequences that a request wants.", kSamplesBuckets);
  request_longest_generation_tokens =
      b.MakeHistogram("request_longest_generation_tokens",
                      "Tokens generated in the longest sequence of a request.", kLengthBuckets);
  sequence_generation_tokens = b.MakeHistogram("sequence_generation_tokens",
                                               "Tokens generated in a sequence.", kLengthBuckets);
}

void RouterMetrics::MakeTokenSeries() {
  Builder b(registry_, model_);
  prompt_tokens_total =
      b.MakeCounter("prompt_tokens_total", "Prompt tokens of requests that have started.");
  prompt_tokens_cached_total =
      b.MakeCounter("prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.");
  generation_tokens_total =
      b.MakeCounter("generation_tokens_total", "Tokens generated and delivered.");
  prefix_cache_query_tokens_total =
      b.MakeCounter("prefix_cache_query_tokens_total", "Tokens looked up in the prefix index.");
  prefix_cache_hit_tokens_total =
      b.MakeCounter("prefix_cache_hit_tokens_total", "Tokens found in the prefix index.");
  prefix_index_nodes = b.MakeGauge("prefix_index_nodes", "Nodes of the prefix index.");
  kv_block_tokens = b.MakeGauge("kv_block_tokens", "Tokens that a KV block holds.");
  kv_blocks = b.MakeGauges("kv_blocks", "KV blocks of the worker.", "state", kBlockStates);
}

void RouterMetrics::MakeStepSeries() {
  Builder b(registry_, model_);
  preemptions_total = b.MakeCounter("preemptions_total", "Sequences preempted for lack of blocks.");
  rollbacks_total =
      b.MakeCounter("rollbacks_total", "Sequences set back to their last acknowledged result.");
  refused_steps_total = b.MakeCounter("refused_steps_total", "Steps that the worker refused.");
  wasted_rows_total =
      b.MakeCounter("wasted_rows_total", "Rows that ran for sequences which had ended already.");
  spec_decode_draft_tokens_total =
      b.MakeCounter("spec_decode_draft_tokens_total", "Tokens that workers drafted.");
  spec_decode_accepted_tokens_total =
      b.MakeCounter("spec_decode_accepted_tokens_total", "Drafted tokens that were kept.");
  for (uint32_t i = 0; i <= kMaxDrafts; ++i) {
    spec_decode_rounds_total[i] =
        b.MakeCounter("spec_decode_rounds_total",
                      "Rows of decodes, by the number of tokens that were drafted for them.",
                      {{"drafts", std::to_string(i)}});
  }
  for (uint32_t i = 0; i < kMaxDrafts; ++i) {
    spec_decode_accepted_by_position[i] =
        b.MakeCounter("spec_decode_accepted_tokens_per_position_total",
                      "Drafted tokens that were kept, by their place in a row.",
                      {{"position", std::to_string(i)}});
  }
  step_batch_sequences =
      b.MakeHistogram("step_batch_sequences", "Sequences of a step.", kStepTokensBuckets);
  for (size_t i = 0; i < kPhaseNames.size(); ++i) {
    step_tokens[i] = b.MakeHistogram("step_tokens", "Tokens of a step.", kStepTokensBuckets,
                                     {{"phase", std::string(kPhaseNames[i])}});
  }
  scheduler_step_seconds =
      b.MakeHistogram("scheduler_step_seconds",
                      "Router time of a step: plan, encode, decode, apply.", kStepBucketsSeconds);
  step_rtt_seconds = b.MakeHistogram("step_rtt_seconds", "From sending a step to its result.",
                                     kStepBucketsSeconds);
}

void RouterMetrics::MakeShardSeries() {
  Builder b(registry_, model_);
  shard_workers = b.MakeGauges("shard_workers",
                               "Workers that the router knows, by the router that they belong to.",
                               "owner", kOwnerNames);
  shard_leases =
      b.MakeGauges("shard_leases", "Leases that the router holds, by the owner of the worker.",
                   "owner", kOwnerNames);
  shard_takeovers_total =
      b.MakeCounter("shard_takeovers_total", "Orphans of other routers that were taken over.");
}

void RouterMetrics::SetShard(const Shard& shard) {
  Builder(registry_, model_)
      .MakeGauge("shard_info", "Always 1.",
                 {{"index", std::to_string(shard.index)}, {"count", std::to_string(shard.count)}})
      ->Set(1);
}

WorkerSeries RouterMetrics::ForWorker(const std::string& worker) {
  Builder b(registry_, model_);
  const Labels labels = {{"worker", worker}};
  return {
      .state = b.MakeGauges("worker_state", "1 for the worker's current state.", "state",
                            kWorkerStateNames, labels),
      .circuit = b.MakeGauges("worker_circuit", "1 for the state of the worker's circuit breaker.",
                              "state", kCircuitNames, labels),
      .restarts_total =
          b.MakeCounter("worker_restarts_total", "Changes of a worker's incarnation.", labels),
      .requests_total =
          b.MakeCounter("worker_requests_total", "Requests placed on the worker.", labels),
      .queue_tokens = b.MakeGauge("worker_queue_tokens",
                                  "Prompt tokens of requests that wait for the worker.", labels),
      .running_sequences =
          b.MakeGauge("worker_running_sequences", "Sequences with a slot.", labels),
      .prefix_index_nodes =
          b.MakeGauge("worker_prefix_index_nodes", "Nodes of the worker's prefix index.", labels)};
}

TenantSeries RouterMetrics::ForTenant(const std::string& tenant) {
  Builder b(registry_, model_);
  const Labels labels = {{"tenant", tenant}};
  return {.requests_total = b.MakeCounter("tenant_requests_total",
                                          "Calls of the tenant, refused ones included.", labels),
          .requests_rejected_total = b.MakeCounter("tenant_requests_rejected_total",
                                                   "Calls beyond the tenant's own limits.", labels),
          .open_requests =
              b.MakeGauge("tenant_open_requests", "Calls of the tenant that are open.", labels),
          .prompt_tokens_total = b.MakeCounter("tenant_prompt_tokens_total",
                                               "Prompt tokens charged to the tenant.", labels),
          .generation_tokens_total = b.MakeCounter(
              "tenant_generation_tokens_total", "Generated tokens charged to the tenant.", labels)};
}

void RouterMetrics::RemoveWorker(const std::string& worker) {
  const WorkerSeries series = ForWorker(worker);
  Builder b(registry_, model_);
  for (Gauge* const gauge : series.state) b.Remove("worker_state", gauge);
  for (Gauge* const gauge : series.circuit) b.Remove("worker_circuit", gauge);
  b.Remove("worker_restarts_total", series.restarts_total);
  b.Remove("worker_requests_total", series.requests_total);
  b.Remove("worker_queue_tokens", series.queue_tokens);
  b.Remove("worker_running_sequences", series.running_sequences);
  b.Remove("worker_prefix_index_nodes", series.prefix_index_nodes);
}

void WorkerSeries::SetState(WorkerState current) const {
  for (size_t i = 0; i < state.size(); ++i) {
    state[i]->Set(i == static_cast<size_t>(current) ? 1 : 0);
  }
}

void WorkerSeries::SetCircuit(CircuitState current) const {
  for (size_t i = 0; i < circuit.size(); ++i) {
    circuit[i]->Set(i == static_cast<size_t>(current) ? 1 : 0);
  }
}

void WorkerSeries::Publish(const SchedulerStats& stats) const {
  queue_tokens->Set(static_cast<double>(stats.waiting_tokens));
  running_sequences->Set(stats.running_sequences);
  prefix_index_nodes->Set(stats.prefix_index_nodes);
}

prometheus::Gauge& RouterMetrics::BlockGauge(uint32_t group, size_t block_state) {
  std::atomic<Gauge*>& known = further_kv_blocks_.at(group - 1).at(block_state);
  Gauge* gauge = known.load(std::memory_order_acquire);
  if (gauge == nullptr) {
    // Concurrent callers get the same gauge.
    gauge = Builder(registry_, model_)
                .MakeGauge("kv_group_blocks", "KV blocks of the worker in a further KV group.",
                           {{"group", std::to_string(group)},
                            {"state", std::string(kBlockStates.at(block_state))}});
    known.store(gauge, std::memory_order_release);
  }
  return *gauge;
}

void RouterMetrics::PublishGroups(const std::vector<BlockCounts>& counts,
                                  const std::vector<BlockCounts>& previous) {
  const size_t num_groups = std::max(counts.size(), previous.size());
  for (size_t i = 0; i < num_groups; ++i) {
    const BlockCounts now = i < counts.size() ? counts[i] : BlockCounts();
    const BlockCounts before = i < previous.size() ? previous[i] : BlockCounts();
    constexpr std::array kStates = {&BlockCounts::free, &BlockCounts::used, &BlockCounts::cached,
                                    &BlockCounts::fenced};
    for (size_t state = 0; state < kStates.size(); ++state) {
      const double change =
          static_cast<double>(now.*kStates[state]) - static_cast<double>(before.*kStates[state]);
      BlockGauge(static_cast<uint32_t>(i + 1), state).Increment(change);
    }
  }
}

void RouterMetrics::Publish(const SchedulerStats& stats, const SchedulerStats& previous) {
  // Whole numbers: their sums are exact.
  const auto change = [](Gauge* gauge, auto now, auto before) {
    if (now != before) gauge->Increment(static_cast<double>(now) - static_cast<double>(before));
  };
  change(queue_requests, stats.waiting_requests, previous.waiting_requests);
  change(queue_tokens, stats.waiting_tokens, previous.waiting_tokens);
  change(prefix_index_nodes, stats.prefix_index_nodes, previous.prefix_index_nodes);
  change(kv_blocks[0], stats.free_blocks, previous.free_blocks);
  change(kv_blocks[1], stats.used_blocks, previous.used_blocks);
  change(kv_blocks[2], stats.cached_blocks, previous.cached_blocks);
  change(kv_blocks[3], stats.fenced_blocks, previous.fenced_blocks);
  PublishGroups(stats.further_groups, previous.further_groups);
  const auto add = [](Counter* counter, uint64_t now, uint64_t before) {
    if (now > before) counter->Increment(static_cast<double>(now - before));
  };
  add(preemptions_total, stats.preemptions, previous.preemptions);
  add(rollbacks_total, stats.rollbacks, previous.rollbacks);
  add(refused_steps_total, stats.refused_steps, previous.refused_steps);
  add(wasted_rows_total, stats.wasted_rows, previous.wasted_rows);
  add(spec_decode_draft_tokens_total, stats.drafted_tokens, previous.drafted_tokens);
  add(spec_decode_accepted_tokens_total, stats.accepted_drafts, previous.accepted_drafts);
  for (uint32_t i = 0; i <= kMaxDrafts; ++i) {
    add(spec_decode_rounds_total[i], stats.rounds_by_drafts[i], previous.rounds_by_drafts[i]);
  }
  for (uint32_t i = 0; i < kMaxDrafts; ++i) {
    add(spec_decode_accepted_by_position[i], stats.accepted_by_place[i],
        previous.accepted_by_place[i]);
  }
  add(&At(requests_rejected_total, Rejection::kDeadline), stats.refused_for_deadline,
      previous.refused_for_deadline);
  add(&At(requests_rejected_total, Rejection::kFirstToken), stats.refused_for_first_token,
      previous.refused_for_first_token);
  add(prefix_cache_query_tokens_total, stats.prefix_query_tokens, previous.prefix_query_tokens);
  add(prefix_cache_hit_tokens_total, stats.prefix_hit_tokens, previous.prefix_hit_tokens);
}

}  // namespace lockstep::router
