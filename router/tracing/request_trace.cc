#include "router/tracing/request_trace.h"

#include <algorithm>
#include <utility>

namespace lockstep::router {
namespace {

// Usual requests have a few events. A request that moves between dying workers has many.
constexpr size_t kMaxEvents = 64;
constexpr size_t kMaxFinishReasons = 128;

int64_t Count(size_t count) { return static_cast<int64_t>(count); }

void AddSeconds(std::string_view key, absl::Duration duration, std::vector<SpanAttribute>& to) {
  to.emplace_back(key, absl::ToDoubleSeconds(duration));
}

// Follows OpenTelemetry's conventions for gRPC servers: other codes are the client's fault.
bool IsFaultOfServer(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

RequestTrace::RequestTrace(Span span, Instant started, std::shared_ptr<SpanQueue> queue)
    : started_(started),
      span_start_(span.start),
      trace_id_(HexOf(span.trace_id)),
      queue_(std::move(queue)),
      span_(std::move(span)) {}

RequestTrace::~RequestTrace() {
  MutexLock lock(mutex_);
  if (ended_) return;
  // The last known moment, because the client's leaving has no time of its own.
  Instant last = started_;
  if (!span_.events.empty()) last = started_ + (span_.events.back().at - span_start_);
  Finish(absl::StatusCode::kCancelled, last);
}

void RequestTrace::SetName(std::string name) {
  MutexLock lock(mutex_);
  span_.name = std::move(name);
}

void RequestTrace::Set(std::vector<SpanAttribute> attributes) {
  MutexLock lock(mutex_);
  for (SpanAttribute& attribute : attributes) {
    const bool known = std::ranges::find(span_.attributes, attribute.key, &SpanAttribute::key) !=
                       span_.attributes.end();
    if (!known) span_.attributes.push_back(std::move(attribute));
  }
}

void RequestTrace::SetNumCalls(size_t num_calls) {
  MutexLock lock(mutex_);
  num_open_calls_ = num_calls;
}

void RequestTrace::OnQueued(size_t num_prompt_tokens, Instant now) {
  MutexLock lock(mutex_);
  num_prompt_tokens_ += num_prompt_tokens;
  queued_at_ = std::min(queued_at_, now);
  AddEvent("queued", now);
}

void RequestTrace::OnTokens(size_t num_tokens) {
  MutexLock lock(mutex_);
  num_tokens_ += num_tokens;
}

void RequestTrace::OnFinish(std::string_view reason, size_t num_tokens) {
  MutexLock lock(mutex_);
  num_finished_tokens_ += num_tokens;
  if (finish_reasons_.size() < kMaxFinishReasons) finish_reasons_.emplace_back(reason);
}

void RequestTrace::OnStarted(const std::string& worker, size_t num_cached_tokens, Instant now) {
  MutexLock lock(mutex_);
  worker_ = worker;
  num_cached_tokens_ += num_cached_tokens;
  started_at_ = std::min(started_at_, now);
  AddEvent("started", now,
           {{"lockstep.worker", worker}, {"lockstep.cached_tokens", Count(num_cached_tokens)}});
}

void RequestTrace::OnFirstToken(Instant now) {
  MutexLock lock(mutex_);
  // A request may have many sequences. An event for each would fill the span.
  if (first_token_at_ == Instant::InfiniteFuture()) AddEvent("first_token", now);
  first_token_at_ = std::min(first_token_at_, now);
}

void RequestTrace::OnPreempted(Instant now) {
  MutexLock lock(mutex_);
  ++num_preemptions_;
  AddEvent("preempted", now);
}

void RequestTrace::OnWorkerLost(const std::string& worker, Instant now) {
  MutexLock lock(mutex_);
  AddEvent("worker_lost", now, {{"lockstep.worker", worker}});
}

void RequestTrace::OnMoved(const std::string& worker, Instant now) {
  MutexLock lock(mutex_);
  worker_ = worker;
  AddEvent("moved", now, {{"lockstep.worker", worker}});
}

void RequestTrace::EndCall(absl::StatusCode code, Instant now) {
  MutexLock lock(mutex_);
  if (first_failure_ == absl::StatusCode::kOk) first_failure_ = code;
  if (num_open_calls_ > 0) --num_open_calls_;
  if (num_open_calls_ == 0) Finish(first_failure_, now);
}

void RequestTrace::End(absl::StatusCode code, Instant now) {
  MutexLock lock(mutex_);
  Finish(code, now);
}

void RequestTrace::AddEvent(std::string_view name, Instant at,
                            std::vector<SpanAttribute> attributes) {
  if (ended_) return;
  if (span_.events.size() == kMaxEvents) {
    ++span_.num_dropped_events;
    return;
  }
  span_.events.push_back({.name = name, .at = TimeOf(at), .attributes = std::move(attributes)});
}

void RequestTrace::AddEndAttributes(absl::StatusCode code, Instant now) {
  std::vector<SpanAttribute>& to = span_.attributes;
  if (!worker_.empty()) to.emplace_back("lockstep.worker", worker_);
  if (queued_at_ != Instant::InfiniteFuture()) {
    to.emplace_back("gen_ai.usage.input_tokens", Count(num_prompt_tokens_));
    const size_t num_output = code == absl::StatusCode::kOk ? num_finished_tokens_ : num_tokens_;
    to.emplace_back("gen_ai.usage.output_tokens", Count(num_output));
  }
  const bool started = started_at_ != Instant::InfiniteFuture();
  if (started) {
    to.emplace_back("gen_ai.usage.cache_read.input_tokens", Count(num_cached_tokens_));
    AddSeconds("lockstep.queue_seconds", started_at_ - queued_at_, to);
  }
  if (started && first_token_at_ != Instant::InfiniteFuture()) {
    AddSeconds("lockstep.prefill_seconds", first_token_at_ - started_at_, to);
    AddSeconds("lockstep.decode_seconds", now - first_token_at_, to);
  }
  if (num_preemptions_ > 0) to.emplace_back("lockstep.preemptions", num_preemptions_);
  if (!finish_reasons_.empty()) {
    to.emplace_back("gen_ai.response.finish_reasons", std::move(finish_reasons_));
  }
  if (code != absl::StatusCode::kOk) {
    to.emplace_back("error.type", absl::StatusCodeToString(code));
  }
}

void RequestTrace::Finish(absl::StatusCode code, Instant now) {
  if (std::exchange(ended_, true)) return;
  AddEndAttributes(code, now);
  span_.end = TimeOf(now);
  span_.failed = IsFaultOfServer(code);
  queue_->Push(std::move(span_));
}

}  // namespace lockstep::router
