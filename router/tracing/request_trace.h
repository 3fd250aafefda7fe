#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "router/tracing/span.h"
#include "router/tracing/span_queue.h"

namespace lockstep::router {

// The record of one request in a trace. It becomes one span at the end. Phases are events of this
// span, not spans of their own, because they follow each other without overlap. So a request costs
// one record, and is recorded whole or not at all. Requests that are not recorded have no
// RequestTrace: every owner holds a pointer that may be null.
//
// All threads of a request write to it: the thread of the client's connection and the loops of the
// replicas that serve it. Safe to use from any thread. After the end, calls do nothing.
class RequestTrace {
 public:
  // `span` has its ids, its start and the attributes known so far. `started` is the same moment as
  // its start.
  RequestTrace(Span span, Instant started, std::shared_ptr<SpanQueue> queue);
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;
  // If the span was not ended, ends it as cancelled: the client left before there was a call.
  ~RequestTrace();

  // The trace's id in hexadecimal, for logs.
  const std::string& trace_id() const { return trace_id_; }

  // --- from the transport and its calls ---
  void SetName(std::string name);
  // Attributes that the span already has stay as they are: with several prompts, the first counts.
  void Set(std::vector<SpanAttribute> attributes);
  // A request over HTTP may have several prompts. The span ends with the last call; without
  // SetNumCalls there is one. Call it before any EndCall.
  void SetNumCalls(size_t num_calls);
  // The prompt is encoded, and a replica has the request.
  void OnQueued(size_t num_prompt_tokens, Instant now);
  // Tokens go to the client.
  void OnTokens(size_t num_tokens);
  // A sequence ended. `num_tokens` is the number in its usage.
  void OnFinish(std::string_view reason, size_t num_tokens);
  // The span gets the first failure.
  void EndCall(absl::StatusCode code, Instant now);
  // Ends the span at once, even if calls are open.
  void End(absl::StatusCode code, Instant now);

  // --- from the loops of replicas ---
  void OnStarted(const std::string& worker, size_t num_cached_tokens, Instant now);
  // A sequence has its first token. Only the first call adds an event.
  void OnFirstToken(Instant now);
  void OnPreempted(Instant now);
  // The worker was lost while it ran the request.
  void OnWorkerLost(const std::string& worker, Instant now);
  // The replica of another worker took over the request.
  void OnMoved(const std::string& worker, Instant now);

 private:
  absl::Time TimeOf(Instant at) const { return span_start_ + (at - started_); }
  void AddEvent(std::string_view name, Instant at, std::vector<SpanAttribute> attributes = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddEndAttributes(absl::StatusCode code, Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(absl::StatusCode code, Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Instant started_;
  const absl::Time span_start_;
  const std::string trace_id_;
  const std::shared_ptr<SpanQueue> queue_;

  Mutex mutex_;
  Span span_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_open_calls_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::StatusCode first_failure_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
  std::string worker_ ABSL_GUARDED_BY(mutex_);  // the last one; empty: none yet
  // Sums over all prompts.
  size_t num_prompt_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_cached_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_tokens_ ABSL_GUARDED_BY(mutex_) = 0;           // generated
  size_t num_finished_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // as usages count
  int64_t num_preemptions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> finish_reasons_ ABSL_GUARDED_BY(mutex_);
  // The first moment of each kind. Infinite: none yet.
  Instant queued_at_ ABSL_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
  Instant started_at_ ABSL_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
  Instant first_token_at_ ABSL_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
};

}  // namespace lockstep::router
