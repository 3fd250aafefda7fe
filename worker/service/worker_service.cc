#include "worker/service/worker_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/runtime/clock.h"
#include "common/runtime/wait_until.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

constexpr char kServiceName[] = "lockstep.worker.v1.Worker";
constexpr char kDescribePath[] = "/lockstep.worker.v1.Worker/Describe";
constexpr char kExecutePath[] = "/lockstep.worker.v1.Worker/Execute";

// Limits of a connection. Any client can connect to a port without TLS, so calls may hold little. A
// stream with a lease gets more (StepStream).
constexpr RpcLimits kLimits = {.max_calls = 16,
                               .call_window_bytes = 8 << 10,
                               .connection_window_bytes = 1 << 20,
                               .max_message_bytes = 4 << 10,
                               .num_messages = 1};
// A router that vanished without closing its stream loses its lease within 20 s. A silent client
// must not keep a connection that a router wants.
constexpr RpcTimeouts kTimeouts = {.handshake = absl::Seconds(10),
                                   .keepalive_time = absl::Seconds(10),
                                   .keepalive_timeout = absl::Seconds(10),
                                   .idle = absl::Seconds(60)};
// Time for final statuses to reach the clients.
constexpr std::chrono::milliseconds kFlushTime(500);

// One more than the steps in flight: the next step may arrive before the answer to the oldest is
// written.
uint32_t MaxUnanswered(const WorkerServiceOptions& options) {
  return options.max_steps_in_flight + 1;
}

absl::Status HandedBack() {
  return Unavailable("the worker goes back to the router that it belongs to");
}

}  // namespace

WorkerService::WorkerService(v1::DescribeResponse description, ExecutorThread& executor,
                             WorkerMetrics& metrics, const WorkerServiceOptions& options)
    : options_(options),
      description_(std::move(description)),
      executor_(executor),
      metrics_(metrics),
      ledger_(description_.incarnation()),
      standard_(kServiceName, [this] { return !draining_.load(); }) {}

WorkerService::~WorkerService() = default;

size_t WorkerService::QueueCapacity(const WorkerServiceOptions& options) {
  // For every stream: its steps, and the beginning and the end of its lease.
  return size_t{options.max_streams} * (MaxUnanswered(options) + 2);
}

void WorkerService::Start() {
  thread_ = NamedThread("step-stream", [this] { Loop(); });
}

void WorkerService::Serve(int descriptor, SslPtr ssl) {
  RpcHandler* const handler = this;
  auto connection = std::make_shared<RpcConnection>(
      descriptor, std::move(ssl),
      RpcConnection::Options{
          .role = RpcRole::kServer, .limits = kLimits, .timeouts = kTimeouts, .authority = {}},
      handler);
  poller_.Post([this, connection = std::move(connection)] {
    if (stopping_) return;
    connections_[connection.get()] = connection;
    connection->Attach(poller_);
  });
}

void WorkerService::BeginDrain() {
  draining_ = true;
  poller_.Post([this] { OnDrain(); });
}

bool WorkerService::WaitUntilNoLease(absl::Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (leased_) {
    if (!WaitUntil(mutex_, lease_changed_, deadline)) return false;
  }
  return true;
}

void WorkerService::Stop() {
  poller_.Post([this] { stopping_ = true; });
  thread_.join();
}

void WorkerService::Loop() {
  while (!stopping_) PollOnce();
  EndAll();
  const auto flushed_by = std::chrono::steady_clock::now() + kFlushTime;
  while ((!streams_by_call_.empty() || AnythingUnsent()) &&
         std::chrono::steady_clock::now() < flushed_by) {
    poller_.Poll(std::min(flushed_by, std::chrono::steady_clock::now() + kFlushTime / 50));
  }
  for (const auto& [key, open] : connections_) {
    open->Close(Unavailable("the worker ends"));
  }
  while (!connections_.empty() || !streams_.empty()) poller_.Poll(Poller::Time::max());
}

void WorkerService::PollOnce() {
  if (options_.poll_window > absl::ZeroDuration() && StepsInFlight()) {
    const auto end =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options_.poll_window);
    do {
      if (poller_.Poll(Poller::Time::min()) > 0) return;
    } while (std::chrono::steady_clock::now() < end);
  }
  if (hand_back_by_ == Instant::InfiniteFuture()) {
    poller_.Poll(Poller::Time::max());
    return;
  }
  const absl::Duration left = hand_back_by_ - MonotonicNow();
  if (left <= absl::ZeroDuration()) return EndHandBack();
  poller_.Poll(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(left));
}

bool WorkerService::StepsInFlight() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->num_unanswered() > 0; });
}

// --- calls ---

void WorkerService::OnRpcEvent(RpcConnection& connection, RpcEvent event) {
  if (event.kind == RpcEvent::Kind::kCall) return OpenCall(connection, event);
  if (standard_.OnEvent(connection, event)) return;
  const auto found = streams_by_call_.find(CallKey(&connection, event.call));
  if (found == streams_by_call_.end()) {
    // A Describe call, or a call that was refused.
    if (event.kind == RpcEvent::Kind::kMessage) {
      AnswerDescribe(connection, event.call, event.bytes);
    } else if (event.kind == RpcEvent::Kind::kHalfClose) {
      connection.Finish(event.call, InvalidArgument("a message is missing"));
    }
    return;
  }
  StepStream& stream = *found->second;
  switch (event.kind) {
    case RpcEvent::Kind::kMessage:
      return stream.OnMessage(event.bytes);
    case RpcEvent::Kind::kHalfClose:
      return stream.OnHalfClose();
    default:
      streams_by_call_.erase(found);
      return stream.OnCallEnd();
  }
}

void WorkerService::OnClosed(RpcConnection& connection, const absl::Status& /*reason*/) {
  connections_.erase(&connection);
}

void WorkerService::OpenCall(RpcConnection& connection, const RpcEvent& event) {
  const std::shared_ptr<RpcConnection>& owned = connections_.find(&connection)->second;
  if (event.bytes == kExecutePath) return OpenStream(owned, event.call);
  if (event.bytes == kDescribePath || standard_.Open(owned, event)) return;
  connection.Finish(event.call, Unimplemented("there is no such method"));
}

void WorkerService::AnswerDescribe(RpcConnection& connection, RpcConnection::CallId call,
                                   const std::string& bytes) {
  v1::DescribeRequest request;
  if (!request.ParseFromString(bytes)) {
    return connection.Finish(call, InvalidArgument("the message cannot be parsed"));
  }
  v1::DescribeResponse response = description_;
  response.set_last_epoch(ledger_.last_epoch());
  response.set_live_epoch(ledger_.live_epoch());
  connection.Send(call, FrameMessage(response));
  connection.Finish(call, absl::OkStatus());
}

void WorkerService::OpenStream(const std::shared_ptr<RpcConnection>& connection,
                               RpcConnection::CallId call) {
  if (streams_.size() >= options_.max_streams) {
    // Streams without a claim must not keep a router out, and neither must ended streams that their
    // clients do not close. The oldest such stream makes room.
    const auto ended = std::ranges::find_if(streams_, &StepStream::abandonable,
                                            [](const auto& open) -> auto& { return *open; });
    const auto idle = std::ranges::find_if(streams_, &StepStream::idle,
                                           [](const auto& open) -> auto& { return *open; });
    if (ended != streams_.end()) {
      (*ended)->Abandon();
    } else if (idle != streams_.end()) {
      (*idle)->End(ResourceExhausted("too many streams are open and this one has claimed nothing"));
    } else {
      return connection->Finish(call, ResourceExhausted("too many Execute streams are open"));
    }
  }
  const StepStream::Wiring wiring = {
      .host = this,
      .executor = &executor_,
      .max_unanswered = MaxUnanswered(options_),
      .max_message_bytes = static_cast<size_t>(options_.max_message_bytes)};
  streams_.push_back(std::make_unique<StepStream>(wiring, connection, call));
  streams_by_call_[CallKey(connection.get(), call)] = streams_.back().get();
}

void WorkerService::OnOver(StepStream& stream) {
  std::erase_if(streams_, [&stream](const auto& entry) { return entry.get() == &stream; });
}

// --- leases ---

absl::Status WorkerService::OnClaim(StepStream& stream, const v1::StepRequest& message) {
  const uint64_t former_epoch = ledger_.live_epoch();
  absl::Status status =
      draining_ ? Unavailable("the worker is shutting down") : ledger_.Claim(message);
  if (!status.ok()) {
    metrics_.RecordRefusedClaim();
    if (ledger_.asked_back()) HandBack();
    return status;
  }
  for (const auto& other : streams_) {
    if (former_epoch == 0 || other.get() == &stream || other->epoch() != former_epoch) continue;
    other->End(MakeError(absl::StatusCode::kAborted, "fenced by epoch {}", message.epoch()));
  }
  PublishLease();
  return absl::OkStatus();
}

void WorkerService::OnLeaseEnd(uint64_t epoch) {
  ledger_.End(epoch);
  PublishLease();
}

void WorkerService::PublishLease() {
  MutexLock lock(mutex_);
  leased_ = ledger_.live_epoch() != 0;
  lease_changed_.NotifyAll();
}

void WorkerService::OnQuiet(StepStream& stream) {
  if (draining_ || stream.asked_back()) EndIfDrained(stream);
}

void WorkerService::EndIfDrained(StepStream& stream) {
  if (stream.num_unanswered() > 0 || executor_.num_live_slots() > 0) return;
  stream.End(draining_ ? Unavailable("the worker is shutting down") : HandedBack());
}

StepStream* WorkerService::LivingStream() {
  const auto living = std::ranges::find_if(streams_, [this](const auto& stream) {
    return stream->epoch() != 0 && stream->epoch() == ledger_.live_epoch();
  });
  return living == streams_.end() ? nullptr : living->get();
}

void WorkerService::HandBack() {
  StepStream* const stream = LivingStream();
  if (stream == nullptr || stream->asked_back()) return;
  stream->AskBack();
  hand_back_by_ = MonotonicNow() + options_.hand_back_grace;
  EndIfDrained(*stream);
}

void WorkerService::EndHandBack() {
  hand_back_by_ = Instant::InfiniteFuture();
  StepStream* const stream = LivingStream();
  if (stream != nullptr && stream->asked_back()) stream->End(HandedBack());
}

void WorkerService::OnDrain() {
  standard_.OnServingChange();
  if (StepStream* const stream = LivingStream(); stream != nullptr) EndIfDrained(*stream);
}

void WorkerService::EndAll() {
  for (const auto& stream : streams_) stream->End(Unavailable("the worker is shutting down"));
  for (const auto& [key, open] : connections_) open->GoAway();
}

bool WorkerService::AnythingUnsent() {
  return std::ranges::any_of(connections_,
                             [](const auto& entry) { return entry.second->has_unsent(); });
}

void WorkerService::RecordStep(const v1::StepResult& result, const StepStats& stats) {
  metrics_.RecordStep(result, stats);
}

}  // namespace lockstep::worker
