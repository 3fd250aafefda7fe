#include "router/tracing/otlp_exporter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/rpc/rpc_client.h"
#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "common/runtime/wait_until.h"
#include "common/status.h"
#include "opentelemetry/trace_service.pb.h"
#include "router/tracing/otlp_message.h"

namespace lockstep::router {
namespace {

namespace wire = opentelemetry::proto::collector::trace::v1;

constexpr char kExportPath[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
// An answer has a number and a short text. Larger answers are not read.
constexpr size_t kMaxAnswerBytes = 64 << 10;
constexpr size_t kMaxLoggedBytes = 200;
constexpr absl::Duration kBetweenLines = absl::Minutes(1);

// The codes for which OTLP lets a client send the same batch again. RESOURCE_EXHAUSTED counts only
// with certain details, which are not read here. https://opentelemetry.io/docs/specs/otlp/#failures
bool MaySendAgain(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

class OtlpExporter::Impl {
 public:
  Impl(TracingConfig config, std::shared_ptr<SpanQueue> queue, const SpanMetrics& metrics)
      : config_(std::move(config)),
        queue_(std::move(queue)),
        metrics_(metrics),
        client_({.address = config_.endpoint,
                 .tls = config_.tls,
                 .limits = {.max_message_bytes = kMaxAnswerBytes},
                 .timeouts = {}}) {
    thread_ = NamedThread("spans", [this] { Run(); });
  }

  ~Impl() {
    {
      MutexLock lock(mutex_);
      stop_at_ = MonotonicNow() + config_.flush_grace;
    }
    changed_.NotifyAll();
    queue_->Close();
    MutexLock lock(mutex_);
    while (!done_ && MonotonicNow() < stop_at_) {
      changed_.WaitFor(mutex_, absl::ToChronoNanoseconds(stop_at_ - MonotonicNow()));
    }
    if (!done_) client_.Cancel();
    // The thread is joined without the lock: thread_ is the last member and is destroyed first.
  }

 private:
  void Run() {
    for (;;) {
      const std::vector<Span> batch = queue_->TakeBatch();
      if (batch.empty()) break;
      Export(batch);
      if (MonotonicNow() >= stop_at()) queue_->DropAll();
    }
    MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }

  void Export(const std::vector<Span>& batch) {
    const std::string message = FrameMessage(MakeOtlpMessage(batch, config_.service_name));
    absl::Duration pause = config_.min_backoff;
    for (uint32_t attempt = 1;; ++attempt) {
      wire::ExportTraceServiceResponse response;
      const absl::Status status = Call(message, response);
      NoteHealth(status);
      if (status.ok()) return CountTaken(batch.size(), response.partial_success());
      if (!MaySendAgain(status.code())) {
        return metrics_.CountDropped(SpanDrop::kRefused, batch.size());
      }
      if (stopping()) return metrics_.CountDropped(SpanDrop::kShutdown, batch.size());
      if (attempt == config_.max_attempts || !Sleep(pause)) {
        const SpanDrop why = stopping() ? SpanDrop::kShutdown : SpanDrop::kUnreachable;
        return metrics_.CountDropped(why, batch.size());
      }
      pause = std::min(2 * pause, config_.max_backoff);
    }
  }

  absl::Status Call(const std::string& message, wire::ExportTraceServiceResponse& response) {
    const absl::Duration left = std::min(config_.export_timeout, stop_at() - MonotonicNow());
    const absl::StatusOr<std::string> answer = client_.Call(kExportPath, message, left);
    if (!answer.ok()) return answer.status();
    if (response.ParseFromString(*answer)) return absl::OkStatus();
    return Internal("the answer cannot be parsed");
  }

  // The collector may have taken only some spans. Its number is not trusted.
  void CountTaken(size_t num_spans, const wire::ExportTracePartialSuccess& partial) {
    const auto num_rejected = static_cast<size_t>(
        std::clamp<int64_t>(partial.rejected_spans(), 0, static_cast<int64_t>(num_spans)));
    metrics_.CountExported(num_spans - num_rejected);
    metrics_.CountDropped(SpanDrop::kRefused, num_rejected);
  }

  // Logs changes of the collector's health, at most one a minute, because a collector may take
  // every second batch. Logs nothing while the router ends.
  void NoteHealth(const absl::Status& status) {
    const Instant now = MonotonicNow();
    if (status.ok() == healthy_ || now < next_line_at_ || stopping()) return;
    healthy_ = status.ok();
    next_line_at_ = now + kBetweenLines;
    if (healthy_) return spdlog::info("collector {} takes spans again", config_.endpoint);
    spdlog::warn("collector {} does not take spans: {}: {}", config_.endpoint,
                 absl::StatusCodeToString(status.code()),
                 Message(status).substr(0, kMaxLoggedBytes));
  }

  // False if the router ends meanwhile.
  bool Sleep(absl::Duration duration) {
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration);
    MutexLock lock(mutex_);
    while (stop_at_ == Instant::InfiniteFuture()) {
      if (!WaitUntil(mutex_, changed_, until)) return true;
    }
    return false;
  }

  Instant stop_at() {
    MutexLock lock(mutex_);
    return stop_at_;
  }
  bool stopping() { return stop_at() != Instant::InfiniteFuture(); }

  const TracingConfig config_;
  const std::shared_ptr<SpanQueue> queue_;
  const SpanMetrics metrics_;
  RpcClient client_;  // used by the thread only, except Cancel
  // Only the thread uses these.
  bool healthy_ = true;  // as last logged
  Instant next_line_at_ = Instant::InfinitePast();

  Mutex mutex_;
  CondVar changed_;
  Instant stop_at_ ABSL_GUARDED_BY(mutex_) = Instant::InfiniteFuture();  // set by the destructor
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

OtlpExporter::OtlpExporter(TracingConfig config, std::shared_ptr<SpanQueue> queue,
                           const SpanMetrics& metrics)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(queue), metrics)) {}

OtlpExporter::~OtlpExporter() = default;

}  // namespace lockstep::router
