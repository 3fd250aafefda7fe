#include "worker/service/worker_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/runtime/clock.h"
#include "common/runtime/wait_until.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

// One more than may be in flight: the next step may arrive before the answer to the oldest is
// written.
uint32_t MaxUnanswered(const WorkerServiceOptions& options) {
  return options.max_steps_in_flight + 1;
}

absl::Status HandedBack() {
  return Unavailable("the worker goes back to the router that it belongs to");
}

template <typename T>
void Erase(std::vector<std::unique_ptr<T>>& owned, T& object) {
  std::erase_if(owned,
                [&object](const std::unique_ptr<T>& entry) { return entry.get() == &object; });
}

}  // namespace

WorkerService::WorkerService(v1::DescribeResponse description, ExecutorThread& executor,
                             WorkerMetrics& metrics, const WorkerServiceOptions& options)
    : options_(options),
      description_(std::move(description)),
      executor_(executor),
      metrics_(metrics),
      ledger_(description_.incarnation()) {}

WorkerService::~WorkerService() {
  if (queue_ == nullptr || started_) return;
  // The server never came up. A queue must be shut down and emptied before it is destroyed.
  queue_->Shutdown();
  void* id = nullptr;
  bool ok = false;
  while (queue_->Next(&id, &ok)) {
  }
}

size_t WorkerService::QueueCapacity(const WorkerServiceOptions& options) {
  // For every stream: its steps, and the begin and the end of its lease.
  return size_t{options.max_streams} * (MaxUnanswered(options) + 2);
}

void WorkerService::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&service_);
  queue_ = builder.AddCompletionQueue();
}

void WorkerService::Start() {
  started_ = true;
  ListenForStream();
  ListenForDescribe();
  thread_ = NamedThread("step-stream", [this] { Loop(); });
}

void WorkerService::BeginDrain() {
  draining_ = true;
  RingNow(drain_alarm_, *queue_, drain_tag_);
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
  RingNow(stop_alarm_, *queue_, stop_tag_);
  thread_.join();
}

void WorkerService::Loop() {
  void* id = nullptr;
  bool ok = false;
  while (NextEvent(&id, &ok)) {
    CompletionTag::FromId(id).OnComplete(ok);
    if (stopping_ && streams_.empty() && describes_.empty()) {
      stopping_ = false;
      queue_->Shutdown();
    }
  }
}

bool WorkerService::NextEvent(void** id, bool* ok) {
  if (options_.poll_window > absl::ZeroDuration() && StepsInFlight()) {
    const auto end =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options_.poll_window);
    do {
      switch (queue_->AsyncNext(id, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC))) {
        case grpc::CompletionQueue::GOT_EVENT:
          return true;
        case grpc::CompletionQueue::SHUTDOWN:
          return false;
        case grpc::CompletionQueue::TIMEOUT:
          break;
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  return queue_->Next(id, ok);
}

bool WorkerService::StepsInFlight() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->num_unanswered() > 0; });
}

void WorkerService::ListenForStream() {
  streams_.push_back(
      std::make_unique<StepStream>(StepStream::Wiring{.host = this,
                                                      .service = &service_,
                                                      .queue = queue_.get(),
                                                      .executor = &executor_,
                                                      .max_unanswered = MaxUnanswered(options_)}));
}

void WorkerService::ListenForDescribe() {
  DescribeCall::Host* const host = this;
  describes_.push_back(std::make_unique<DescribeCall>(host, &service_, queue_.get()));
}

bool WorkerService::OnAccepted(StepStream& stream) {
  ListenForStream();
  const auto num_open = std::count_if(streams_.begin(), streams_.end(),
                                      [](const auto& open) { return open->accepted(); });
  if (num_open <= static_cast<int64_t>(options_.max_streams)) return true;
  // Streams that never claim must not keep a router out, so the oldest of them is ended.
  const auto idle = std::find_if(streams_.begin(), streams_.end(), [&stream](const auto& open) {
    return open->idle() && open.get() != &stream;
  });
  if (idle == streams_.end()) return false;
  (*idle)->End(ResourceExhausted("too many streams are open and this one has claimed nothing"));
  return true;
}

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
  const auto grace =
      gpr_time_from_millis(absl::ToInt64Milliseconds(options_.hand_back_grace) + 1, GPR_TIMESPAN);
  hand_back_alarm_.emplace();  // the one before is cancelled, and its tag comes all the same
  hand_back_alarm_->Set(queue_.get(), gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), grace),
                        hand_back_tag_.id());
  EndIfDrained(*stream);
}

void WorkerService::OnHandBackAlarm(bool ok) {
  StepStream* const stream = LivingStream();
  if (!ok || stream == nullptr || !stream->asked_back() || MonotonicNow() < hand_back_by_) return;
  stream->End(HandedBack());
}

void WorkerService::OnDrainAlarm(bool /*ok*/) {
  for (const auto& stream : streams_) {
    if (stream->accepted()) EndIfDrained(*stream);
  }
}

void WorkerService::OnStopAlarm(bool /*ok*/) {
  stopping_ = true;
  hand_back_alarm_.reset();  // the queue would wait for it
}

void WorkerService::OnOver(StepStream& stream) { Erase(streams_, stream); }

void WorkerService::RecordStep(const v1::StepResult& result, const StepStats& stats) {
  metrics_.RecordStep(result, stats);
}

void WorkerService::OnDescribe(v1::DescribeResponse* response) {
  ListenForDescribe();
  *response = description_;
  response->set_last_epoch(ledger_.last_epoch());
  response->set_live_epoch(ledger_.live_epoch());
}

void WorkerService::OnOver(DescribeCall& call) { Erase(describes_, call); }

}  // namespace lockstep::worker
