#include "router/tracing/otlp_exporter.h"

#include <absl/time/clock.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/grpc/completion_tag.h"
#include "common/grpc/credentials.h"
#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "common/runtime/wait_until.h"
#include "opentelemetry/trace_service.grpc.pb.h"
#include "router/tracing/otlp_message.h"

namespace lockstep::router {
namespace {

namespace wire = opentelemetry::proto::collector::trace::v1;

// An answer has a number and a short text. A collector that sends more is not read.
constexpr int kMaxAnswerBytes = 64 << 10;
constexpr size_t kMaxLoggedBytes = 200;
constexpr absl::Duration kBetweenLines = absl::Minutes(1);

// The codes for which OTLP tells a client to send the same again. RESOURCE_EXHAUSTED is one only
// with details that are not read here.
// https://opentelemetry.io/docs/specs/otlp/#failures
bool MaySendAgain(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

}  // namespace

class OtlpExporter::Impl {
 public:
  Impl(TracingConfig config, std::shared_ptr<SpanQueue> queue, const SpanMetrics& metrics,
       std::shared_ptr<PolledQueue> calls)
      : config_(std::move(config)),
        queue_(std::move(queue)),
        metrics_(metrics),
        calls_(std::move(calls)) {
    Connect();
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
    if (call_ != nullptr) call_->TryCancel();
    // The thread is joined without the lock, as the last member goes first.
  }

 private:
  void Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                     static_cast<int>(absl::ToInt64Milliseconds(config_.max_backoff)));
    arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
    // The router takes its configuration from flags only, and the sending of batches is its own.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    const auto credentials = MakeChannelCredentials(config_.tls, arguments);
    stub_ = wire::TraceService::NewStub(
        grpc::CreateCustomChannel(config_.endpoint, credentials, arguments));
  }

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
    const wire::ExportTraceServiceRequest request = MakeOtlpMessage(batch, config_.service_name);
    absl::Duration pause = config_.min_backoff;
    for (uint32_t attempt = 1;; ++attempt) {
      wire::ExportTraceServiceResponse response;
      const grpc::Status status = Call(request, response);
      NoteHealth(status);
      if (status.ok()) return CountTaken(batch.size(), response.partial_success());
      if (!MaySendAgain(status.error_code())) {
        return metrics_.CountDropped(SpanDrop::kRefused, batch.size());
      }
      // A connection that nobody answers on may be dead without a sign.
      if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) Connect();
      if (stopping()) return metrics_.CountDropped(SpanDrop::kShutdown, batch.size());
      if (attempt == config_.max_attempts || !Sleep(pause)) {
        const SpanDrop why = stopping() ? SpanDrop::kShutdown : SpanDrop::kUnreachable;
        return metrics_.CountDropped(why, batch.size());
      }
      pause = std::min(2 * pause, config_.max_backoff);
    }
  }

  grpc::Status Call(const wire::ExportTraceServiceRequest& request,
                    wire::ExportTraceServiceResponse& response) {
    grpc::ClientContext context;
    grpc::Status status;
    calls_->AddUser();
    MutexLock lock(mutex_);
    const absl::Duration left = std::min(config_.export_timeout, stop_at_ - MonotonicNow());
    context.set_deadline(absl::ToChronoTime(absl::Now() + left));
    call_ = &context;
    const auto call = stub_->AsyncExport(&context, request, calls_->queue());
    call->Finish(&response, &status, ended_tag_.id());
    while (call_ != nullptr) changed_.Wait(mutex_);
    return status;
  }

  // On the thread of `calls_`, while Call waits.
  void OnEnded(bool /*ok*/) {
    calls_->RemoveUser();
    MutexLock lock(mutex_);
    call_ = nullptr;
    changed_.NotifyAll();
  }

  // The collector may have taken only some. The number is its own, so it may be anything.
  void CountTaken(size_t num_spans, const wire::ExportTracePartialSuccess& partial) {
    const auto num_rejected = static_cast<size_t>(
        std::clamp<int64_t>(partial.rejected_spans(), 0, static_cast<int64_t>(num_spans)));
    metrics_.CountExported(num_spans - num_rejected);
    metrics_.CountDropped(SpanDrop::kRefused, num_rejected);
  }

  // Logs changes only, at most one a minute, and not what the end of the router causes. A collector
  // may take every second batch.
  void NoteHealth(const grpc::Status& status) {
    const Instant now = MonotonicNow();
    if (status.ok() == healthy_ || now < next_line_at_ || stopping()) return;
    healthy_ = status.ok();
    next_line_at_ = now + kBetweenLines;
    if (healthy_) return spdlog::info("collector {} takes spans again", config_.endpoint);
    spdlog::warn("collector {} does not take spans: {}: {}", config_.endpoint,
                 absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code())),
                 status.error_message().substr(0, kMaxLoggedBytes));
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
  const std::shared_ptr<PolledQueue> calls_;
  MethodTag<Impl> ended_tag_{this, &Impl::OnEnded};
  // Only the thread uses these.
  std::unique_ptr<wire::TraceService::Stub> stub_;
  bool healthy_ = true;  // as the log has it
  Instant next_line_at_ = Instant::InfinitePast();

  Mutex mutex_;
  CondVar changed_;
  Instant stop_at_ ABSL_GUARDED_BY(mutex_) = Instant::InfiniteFuture();  // set when it is to end
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;          // the call under way
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

OtlpExporter::OtlpExporter(TracingConfig config, std::shared_ptr<SpanQueue> queue,
                           const SpanMetrics& metrics, std::shared_ptr<PolledQueue> calls)
    : impl_(
          std::make_unique<Impl>(std::move(config), std::move(queue), metrics, std::move(calls))) {}

OtlpExporter::~OtlpExporter() = default;

}  // namespace lockstep::router
