#include "worker/executor/executor_thread.h"

#include <absl/status/status.h>

#include <optional>
#include <utility>

namespace lockstep::worker {
namespace {

uint64_t Nanoseconds(std::chrono::steady_clock::duration duration) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

}  // namespace

ExecutorThread::ExecutorThread(StepExecutor& executor, size_t queue_capacity)
    : executor_(executor), queue_(queue_capacity), thread_("executor", [this] { Loop(); }) {}

ExecutorThread::~ExecutorThread() { queue_.Close(); }

bool ExecutorThread::BeginLease(uint64_t epoch, LeaseDone done) {
  wanted_epoch_ = epoch;
  return queue_.TryPush(LeaseChange{.epoch = epoch, .begins = true, .done = std::move(done)});
}

bool ExecutorThread::EndLease(uint64_t epoch, LeaseDone done) {
  uint64_t expected = epoch;
  wanted_epoch_.compare_exchange_strong(expected, 0);
  return queue_.TryPush(LeaseChange{.epoch = epoch, .begins = false, .done = std::move(done)});
}

bool ExecutorThread::Submit(uint64_t lease_epoch, v1::StepRequest step, StepDone done) {
  return queue_.TryPush(Step{.lease_epoch = lease_epoch,
                             .arrival = std::chrono::steady_clock::now(),
                             .request = std::move(step),
                             .done = std::move(done)});
}

void ExecutorThread::Loop() {
  while (std::optional<Item> item = queue_.Pop()) {
    std::visit([this](auto& work) { Run(work); }, *item);
  }
}

void ExecutorThread::Run(Step& step) {
  v1::StepResult result;
  if (step.lease_epoch != leased_epoch_ || step.lease_epoch != wanted_epoch_) {
    result.set_epoch(step.lease_epoch);
    result.set_step_id(step.request.step_id());
    result.mutable_refusal()->set_code(static_cast<uint32_t>(absl::StatusCode::kAborted));
    result.mutable_refusal()->set_message("epoch: the lease has ended");
    step.done(std::move(result), StepStats{});
    return;
  }
  const TimePoint start = std::chrono::steady_clock::now();
  executor_.Execute(step.request, &result);
  num_live_slots_.store(executor_.last_step().num_live_slots, std::memory_order_relaxed);
  result.mutable_timings()->set_queue_ns(Nanoseconds(start - step.arrival));
  result.mutable_timings()->set_total_ns(
      Nanoseconds(std::chrono::steady_clock::now() - step.arrival));
  step.done(std::move(result), executor_.last_step());
}

void ExecutorThread::Run(LeaseChange& change) {
  if (change.begins) {
    executor_.BeginLease(change.epoch);
    leased_epoch_ = change.epoch;
    num_live_slots_.store(0, std::memory_order_relaxed);
  } else if (leased_epoch_ == change.epoch) {
    executor_.EndLease();
    leased_epoch_ = 0;
    num_live_slots_.store(0, std::memory_order_relaxed);
  }
  change.done();
}

}  // namespace lockstep::worker
