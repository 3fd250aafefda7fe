#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/instant.h"
#include "common/runtime/cancel_flag.h"
#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "router/constraints/constraint_checker.h"
#include "router/engine/engine.h"
#include "router/engine/router_metrics.h"
#include "router/serving/calls/call_registry.h"
#include "router/serving/calls/gatekeeper.h"
#include "router/serving/calls/text_places.h"
#include "router/serving/output/tool_call_counts.h"
#include "router/serving/prompts/prompt_encoder.h"
#include "router/serving/prompts/served_model.h"
#include "router/serving/status/fleet_history.h"
#include "router/serving/status/request_board.h"
#include "router/serving/validation/request_validator.h"
#include "router/serving/validation/wire_measure.h"
#include "router/strands/strand.h"
#include "router/tracing/tracer.h"

namespace lockstep::router {

struct ApiConfig {
  RequestLimits limits;
  absl::Duration default_timeout = absl::Hours(1);  // for requests without a deadline of the client
  absl::Duration retry_after = absl::Seconds(1);    // default of the hint "retry-after-ms"
  absl::Duration stalled_client_timeout = absl::Minutes(1);  // for a client that does not read
  uint32_t max_open_text_calls = 64;                         // Tokenize and Detokenize together
  bool parse_special = true;   // default for text prompts (router/serving/prompts/prompt_encoder.h)
  bool mixed_workers = false;  // workers may differ in weights and numerics
  bool strict_fields = false;  // over HTTP, unknown fields are refused, not ignored
  bool page = true;            // over HTTP, "/" is a page for people

  absl::Status Validate() const;  // reports every violation
};

// What a process gives to its server. Outlives it.
struct ServingParts {
  const ServedModel& model;
  RouterMetrics& metrics;
  const Clock& clock;
  Tracer* const tracer = nullptr;                  // null: no request is recorded
  ConstraintChecker* const constraints = nullptr;  // null: constraints are refused
};

// What all calls of the service share. Lives as long as the server. Safe to use from any thread.
class ApiContext : public ServingParts {
 public:
  // The references must outlive the context. `encode_pool` turns prompts into token ids.
  ApiContext(ApiConfig config, const ServingParts& parts, Engine& engine, StrandRunner& encode_pool,
             Gatekeeper& gatekeeper);

  const ApiConfig config;
  Engine& engine;
  StrandRunner& encode_pool;
  Gatekeeper& gatekeeper;
  const absl::Time started;  // time of day
  const PromptEncoder encoder;
  const std::vector<FieldBound> request_bounds;  // for messages that are not parsed yet
  CallRegistry registry;
  TextPlaces text_places;
  // For people who look at the router (/status.json).
  RequestBoard board;
  FleetHistory history;
  // Listeners of the public API that accept nothing, because they have no file descriptors left.
  std::atomic<int> num_deaf_listeners = 0;
  // Cancelled at the end of a drain: prompts that are being encoded are given up.
  CancelFlag closing;
  // The status for the client if its prompt was not encoded. CANCELLED because of `closing` becomes
  // UNAVAILABLE.
  absl::Status WhyNotEncoded(absl::Status status) const;
  bool accepting() const { return num_deaf_listeners.load() == 0; }

  // The facts and limits that requests are checked against now. The attached worker may allow less
  // than the model.
  ModelFacts Facts() const;
  RequestLimits Limits() const;
  // Below 2^53, so that JSON numbers of every client hold it exactly.
  uint64_t DrawSeed();
  // Differs from the ids of other routers, and of earlier lives of this router.
  std::string MakeRequestId(RequestKey key) const;
  // Counts a request that ended, or was refused (lockstep_router_requests_total).
  void CountEnd(absl::StatusCode code) const {
    RouterMetrics::At(metrics.requests_total, code).Increment();
  }
  // Counts the calls of tools in an output (lockstep_router_tool_calls_total).
  void CountToolCalls(const ToolCallCounts& counts) const {
    RouterMetrics::At(metrics.tool_calls_total, ToolCallOutcome::kWhole)
        .Increment(counts.num_whole);
    RouterMetrics::At(metrics.tool_calls_total, ToolCallOutcome::kBroken)
        .Increment(counts.num_broken);
  }
  // Null if the request is not recorded. `name`: the span's name until TraceRequest sets a better
  // one.
  std::shared_ptr<RequestTrace> BeginTrace(const std::optional<TraceContext>& parent,
                                           std::string_view name) const;

 private:
  Mutex mutex_;
  std::mt19937_64 seeds_ ABSL_GUARDED_BY(mutex_);
  const std::string id_prefix_;
};

}  // namespace lockstep::router
