#pragma once

#include <absl/status/status.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "router/core/scheduler.h"
#include "router/limits/admission.h"
#include "router/workers/circuit_breaker.h"
#include "router/workers/shard.h"
#include "router/workers/worker_contract.h"
#include "router/workers/worker_state.h"

namespace lockstep::router {

enum class FinishedAs { kStop, kLength, kAbort, kError };
enum class RequestStage { kQueued, kRunning };
enum class StepPhase { kPrefill, kDecode };
enum class RetryOutcome { kResumed, kFailed };
enum class ToolCallOutcome { kWhole, kBroken };

// The series with the label of one worker.
struct WorkerSeries {
  // Sets the gauge of `state` and clears the others.
  void SetState(WorkerState state) const;
  void SetCircuit(CircuitState state) const;
  void Publish(const SchedulerStats& stats) const;

  std::array<prometheus::Gauge*, 6> state;    // by WorkerState
  std::array<prometheus::Gauge*, 3> circuit;  // by CircuitState
  prometheus::Counter* restarts_total;
  prometheus::Counter* requests_total;
  prometheus::Gauge* queue_tokens;
  prometheus::Gauge* running_sequences;
  prometheus::Gauge* prefix_index_nodes;
};

// The series with the label of one tenant.
struct TenantSeries {
  prometheus::Counter* requests_total;
  prometheus::Counter* requests_rejected_total;
  prometheus::Gauge* open_requests;
  prometheus::Counter* prompt_tokens_total;
  prometheus::Counter* generation_tokens_total;
};

// Every series of a router. They are made at start, so that each reads 0 before its first event.
// Only the series of further KV groups are made later, with the first worker that has such groups.
// docs/metrics.md has names and labels. The registry owns the series and must outlive the object.
// Any thread may update them.
struct RouterMetrics {
  RouterMetrics(prometheus::Registry& registry, const std::string& model);

  // The series of one worker, made at the first call.
  WorkerSeries ForWorker(const std::string& worker);
  // Sets which of the routers that share the workers this one is. Call once.
  void SetShard(const Shard& shard);
  // Removes the series of the worker. They must not be used any more.
  void RemoveWorker(const std::string& worker);
  // The series of one tenant, made at the first call. They stay until the end, so there are as many
  // as the tenant file ever had names.
  TenantSeries ForTenant(const std::string& tenant);

  template <typename Enum, typename Metric, size_t N>
  static Metric& At(const std::array<Metric*, N>& metrics, Enum value) {
    return *metrics.at(static_cast<size_t>(value));
  }

  // Adds how the counts of one replica changed since `previous`. The series are sums over all
  // replicas.
  void Publish(const SchedulerStats& stats, const SchedulerStats& previous);

  std::array<prometheus::Counter*, 17> requests_total;           // by absl::StatusCode
  std::array<prometheus::Counter*, 7> requests_rejected_total;   // by Rejection
  std::array<prometheus::Counter*, 4> requests_finished_total;   // by FinishedAs
  std::array<prometheus::Counter*, 2> requests_cancelled_total;  // by RequestStage
  std::array<prometheus::Counter*, 2> requests_retried_total;    // by RetryOutcome
  prometheus::Counter* tool_requests_total;
  std::array<prometheus::Counter*, 2> tool_calls_total;  // by ToolCallOutcome
  prometheus::Gauge* queue_requests;
  prometheus::Gauge* queue_tokens;
  prometheus::Gauge* running_requests;
  prometheus::Histogram* time_to_first_token_seconds;
  prometheus::Histogram* inter_token_latency_seconds;
  prometheus::Histogram* time_per_output_token_seconds;
  prometheus::Histogram* queue_wait_seconds;
  prometheus::Histogram* request_duration_seconds;
  prometheus::Histogram* request_prefill_seconds;
  prometheus::Histogram* request_decode_seconds;
  prometheus::Histogram* request_inference_seconds;
  prometheus::Histogram* request_prompt_tokens;
  prometheus::Histogram* request_max_tokens;
  prometheus::Histogram* request_samples;
  prometheus::Histogram* request_longest_generation_tokens;
  prometheus::Histogram* sequence_generation_tokens;
  prometheus::Counter* prompt_tokens_total;
  prometheus::Counter* prompt_tokens_cached_total;
  prometheus::Counter* generation_tokens_total;
  prometheus::Counter* prefix_cache_query_tokens_total;
  prometheus::Counter* prefix_cache_hit_tokens_total;
  prometheus::Gauge* prefix_index_nodes;
  prometheus::Counter* preemptions_total;
  prometheus::Counter* rollbacks_total;
  prometheus::Counter* refused_steps_total;
  prometheus::Counter* wasted_rows_total;
  prometheus::Counter* spec_decode_draft_tokens_total;
  prometheus::Counter* spec_decode_accepted_tokens_total;
  std::array<prometheus::Counter*, kMaxDrafts + 1> spec_decode_rounds_total;  // by drafts
  std::array<prometheus::Counter*, kMaxDrafts> spec_decode_accepted_by_position;
  prometheus::Gauge* kv_block_tokens;
  std::array<prometheus::Gauge*, 4> kv_blocks;  // free, used, cached, fenced
  prometheus::Histogram* step_batch_sequences;
  std::array<prometheus::Gauge*, 2> shard_workers;  // by WorkerOwner
  std::array<prometheus::Gauge*, 2> shard_leases;   // by WorkerOwner
  prometheus::Counter* shard_takeovers_total;
  std::array<prometheus::Histogram*, 2> step_tokens;  // by StepPhase
  prometheus::Histogram* scheduler_step_seconds;
  prometheus::Histogram* step_rtt_seconds;

 private:
  using BlockGauges = std::array<std::atomic<prometheus::Gauge*>, 4>;  // free, used, cached, fenced

  void MakeRequestCounts();
  void MakeRequestHistograms();
  void MakeTokenSeries();
  void MakeStepSeries();
  void MakeShardSeries();
  prometheus::Gauge& BlockGauge(uint32_t group, size_t block_state);
  void PublishGroups(const std::vector<BlockCounts>& counts,
                     const std::vector<BlockCounts>& previous);

  prometheus::Registry& registry_;
  const std::string model_;
  // Of KV groups 1, 2, ... Made at the first block of such a group, because most models have none.
  std::array<BlockGauges, kMaxWorkerKvGroups - 1> further_kv_blocks_ = {};
};

}  // namespace lockstep::router
