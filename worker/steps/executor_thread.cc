#include "worker/steps/executor_thread.h"

#include <absl/status/status.h>

#include <optional>
#include <utility>

#include "worker/steps/row_result.h"

namespace lockstep::worker {
namespace {

uint64_t Nanoseconds(std::chrono::steady_clock::duration duration) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

}  // namespace

ExecutorThread::ExecutorThread(StepRunner& runner, size_t queue_capacity)
    : runner_(runner), queue_(queue_capacity), thread_("executor", [this] { Loop(); }) {}

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
  for (;;) {
    std::optional<Item> item = pending_.empty() ? queue_.Pop() : queue_.TryPop();
    if (item.has_value()) {
      std::visit([this](auto& work) { Run(work); }, *item);
    } else if (pending_.empty()) {
      return;
    }
    DeliverResults();
  }
}

void ExecutorThread::Run(Step& step) {
  if (step.lease_epoch != leased_epoch_ || step.lease_epoch != wanted_epoch_) {
    v1::StepResult result;
    result.set_epoch(step.lease_epoch);
    result.set_step_id(step.request.step_id());
    ReportRefusal(absl::AbortedError("epoch: the lease has ended"), result);
    step.done(std::move(result), StepStats{});
    return;
  }
  pending_.push_back({.arrival = step.arrival,
                      .start = std::chrono::steady_clock::now(),
                      .done = std::move(step.done)});
  runner_.Submit(step.request);
}

void ExecutorThread::DeliverResults() {
  v1::StepResult result;
  StepStats stats;
  while (runner_.TakeResult(&result, &stats)) {
    Pending step = std::move(pending_.front());
    pending_.pop_front();
    num_live_slots_.store(stats.num_live_slots, std::memory_order_relaxed);
    result.mutable_timings()->set_queue_ns(Nanoseconds(step.start - step.arrival));
    result.mutable_timings()->set_total_ns(
        Nanoseconds(std::chrono::steady_clock::now() - step.arrival));
    step.done(std::move(result), stats);
  }
}

void ExecutorThread::Run(LeaseChange& change) {
  while (!pending_.empty()) DeliverResults();
  if (change.begins) {
    runner_.BeginLease(change.epoch);
    leased_epoch_ = change.epoch;
    num_live_slots_.store(0, std::memory_order_relaxed);
  } else if (leased_epoch_ == change.epoch) {
    runner_.EndLease();
    leased_epoch_ = 0;
    num_live_slots_.store(0, std::memory_order_relaxed);
  }
  change.done();
}

}  // namespace lockstep::worker
