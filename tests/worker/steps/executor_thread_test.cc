#include "worker/steps/executor_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "worker/cpu/step_runner.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddRow;
using ::lockstep::testing::FakeForwardModel;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::StepSequence;
using ::testing::ElementsAre;

// Holds whoever passes until it is opened, and tells when somebody has come.
class Gate {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    ++num_arrived_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
  }
  void AwaitArrival() {
    MutexLock lock(mutex_);
    while (num_arrived_ == 0) changed_.Wait(mutex_);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int num_arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

class ExecutorThreadTest : public ::testing::Test {
 protected:
  // What happened on the executor thread, in order; read after it has been joined.
  void Note(std::string what) { events_.push_back(std::move(what)); }

  bool Begin(uint64_t epoch) {
    return thread_->BeginLease(epoch, [this, epoch] { Note("begin " + std::to_string(epoch)); });
  }
  bool End(uint64_t epoch) {
    return thread_->EndLease(epoch, [this, epoch] { Note("end " + std::to_string(epoch)); });
  }
  bool Submit(uint64_t lease_epoch, v1::StepRequest step) {
    return thread_->Submit(
        lease_epoch, std::move(step), [this](v1::StepResult result, const StepStats&) {
          Note((result.has_refusal() ? "refused " : "done ") + std::to_string(result.step_id()));
          last_result_ = std::move(result);
        });
  }
  v1::StepRequest FirstStep(StepSequence& steps) {
    v1::StepRequest step = steps.Next();
    *step.add_started() = MakeStarted(0, MakeTokens(5, 64, 1), {0, 1, 2}, 12);
    AddRow(step, 0, 5);
    return step;
  }
  v1::StepRequest DecodeStep(StepSequence& steps) {
    v1::StepRequest step = steps.Next();
    step.add_run_slots(0);
    return step;
  }
  void Join() { thread_.reset(); }

  FakeForwardModel model_;
  CpuStepRunner executor_{model_, {.max_slots = 4}, /*incarnation=*/1};
  std::vector<std::string> events_;
  v1::StepResult last_result_;
  std::unique_ptr<ExecutorThread> thread_ = std::make_unique<ExecutorThread>(executor_, 8);
};

TEST_F(ExecutorThreadTest, RunsLeasesAndStepsInOrder) {
  StepSequence steps(5);
  EXPECT_TRUE(Begin(5));
  EXPECT_TRUE(Submit(5, FirstStep(steps)));
  EXPECT_TRUE(Submit(5, DecodeStep(steps)));
  Join();
  EXPECT_THAT(events_, ElementsAre("begin 5", "done 1", "done 2"));
  const v1::StepTimings& timings = last_result_.timings();
  EXPECT_GE(timings.total_ns(), timings.queue_ns() + timings.compute_ns());
  EXPECT_GT(timings.compute_ns(), 0u);
}

TEST_F(ExecutorThreadTest, ReportsLiveSlots) {
  StepSequence steps(1);
  std::promise<void> ran, ended;
  Begin(1);
  thread_->Submit(1, FirstStep(steps),
                  [&ran](v1::StepResult, const StepStats&) { ran.set_value(); });
  ran.get_future().wait();
  EXPECT_EQ(thread_->num_live_slots(), 1u);
  thread_->EndLease(1, [&ended] { ended.set_value(); });
  ended.get_future().wait();
  EXPECT_EQ(thread_->num_live_slots(), 0u);
}

TEST_F(ExecutorThreadTest, ANewLeaseSkipsTheStepsThatWaitAndFollowsTheOneThatRuns) {
  Gate gate;
  model_.set_after_forward([&gate](const ForwardBatch&, std::span<float>) { gate.Pass(); });
  StepSequence old_steps(1), new_steps(2);
  Begin(1);
  Submit(1, FirstStep(old_steps));
  gate.AwaitArrival();
  Submit(1, DecodeStep(old_steps));
  End(1);
  Begin(2);
  Submit(2, FirstStep(new_steps));
  gate.Open();
  Join();
  EXPECT_THAT(events_, ElementsAre("begin 1", "done 1", "refused 2", "end 1", "begin 2", "done 1"));
  EXPECT_EQ(last_result_.epoch(), 2u);
}

TEST_F(ExecutorThreadTest, TheLateEndOfAnOldLeaseLeavesTheNewOneAlone) {
  StepSequence steps(2);
  Begin(1);
  Begin(2);
  End(1);
  Submit(2, FirstStep(steps));
  Join();
  EXPECT_THAT(events_, ElementsAre("begin 1", "begin 2", "end 1", "done 1"));
}

TEST_F(ExecutorThreadTest, StepsAfterTheEndAreSkipped) {
  StepSequence steps(1);
  Begin(1);
  End(1);
  Submit(1, FirstStep(steps));
  Join();
  EXPECT_THAT(events_, ElementsAre("begin 1", "end 1", "refused 1"));
  EXPECT_EQ(model_.num_forwards(), 0u);
}

TEST_F(ExecutorThreadTest, AFullQueueIsToldToTheCaller) {
  Gate gate;
  model_.set_after_forward([&gate](const ForwardBatch&, std::span<float>) { gate.Pass(); });
  StepSequence steps(1);
  Begin(1);
  Submit(1, FirstStep(steps));
  gate.AwaitArrival();
  int num_queued = 0;
  while (Submit(1, DecodeStep(steps))) ++num_queued;
  EXPECT_EQ(num_queued, 8);
  gate.Open();
  Join();
  EXPECT_EQ(events_.size(), 2u + 8u);
}

TEST_F(ExecutorThreadTest, ManyThreadsMaySubmit) {
  StepSequence steps(1);
  thread_ = std::make_unique<ExecutorThread>(executor_, 1000);
  Begin(1);
  std::vector<std::thread> submitters;
  for (int i = 0; i < 4; ++i) {
    submitters.emplace_back([this] {
      // Steps of a lease that never began.
      for (int step = 0; step < 50; ++step) Submit(9, v1::StepRequest());
    });
  }
  for (std::thread& submitter : submitters) submitter.join();
  Submit(1, FirstStep(steps));
  Join();
  EXPECT_EQ(events_.size(), 202u);
  EXPECT_EQ(events_.back(), "done 1");
}

// Answers steps only when told to, as a device does.
class DeferringRunner final : public StepRunner {
 public:
  const StepBounds& bounds() const override { return bounds_; }
  void BeginLease(uint64_t) override { EXPECT_TRUE(submitted_.empty()); }
  void EndLease() override { EXPECT_TRUE(submitted_.empty()); }
  void Submit(const v1::StepRequest& step) override {
    submitted_.push_back(step.step_id());
    ++num_submitted_;
  }
  size_t num_pending() const override { return submitted_.size(); }
  bool TakeResult(v1::StepResult* result, StepStats* stats) override {
    if (submitted_.empty()) return false;
    if (num_finished_ == num_taken_) {
      if (finishes_after_polls_ > 0 && --finishes_after_polls_ == 0) ++num_finished_;
      return false;
    }
    result->Clear();
    result->set_step_id(submitted_.front());
    submitted_.pop_front();
    ++num_taken_;
    *stats = {.num_live_slots = 3};
    return true;
  }

  void AwaitSubmitted(int count) const {
    while (num_submitted_ < count) std::this_thread::yield();
  }
  void FinishOne() { ++num_finished_; }
  // One step finishes by itself once it has been polled for so often.
  void FinishAfterPolls(int num_polls) { finishes_after_polls_ = num_polls; }

 private:
  const StepBounds bounds_{FakeForwardModel().info(), {}};
  std::deque<uint64_t> submitted_;
  int num_taken_ = 0;
  std::atomic<int> num_submitted_ = 0;
  std::atomic<int> num_finished_ = 0;
  std::atomic<int> finishes_after_polls_ = 0;
};

TEST(ExecutorThreadPipelineTest, SubmitsAheadOfResultsAndReportsThemInOrder) {
  DeferringRunner runner;
  std::vector<uint64_t> done;
  std::promise<void> all_done;
  {
    ExecutorThread thread(runner, 8);
    thread.BeginLease(1, [] {});
    StepSequence steps(1);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(thread.Submit(1, steps.Next(), [&](v1::StepResult result, const StepStats&) {
        done.push_back(result.step_id());
        if (done.size() == 3) all_done.set_value();
      }));
    }
    runner.AwaitSubmitted(3);  // none has a result yet
    for (int i = 0; i < 3; ++i) runner.FinishOne();
    all_done.get_future().wait();
    EXPECT_EQ(thread.num_live_slots(), 3u);
  }
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST(ExecutorThreadPipelineTest, AChangeOfLeaseComesAfterTheResultsOfTheStepsUnderWay) {
  DeferringRunner runner;
  std::vector<std::string> events;
  {
    ExecutorThread thread(runner, 8);
    thread.BeginLease(1, [] {});
    StepSequence steps(1);
    thread.Submit(1, steps.Next(),
                  [&](v1::StepResult, const StepStats&) { events.push_back("step"); });
    runner.AwaitSubmitted(1);
    thread.EndLease(1, [&] { events.push_back("end"); });
    runner.FinishAfterPolls(1000);
  }
  EXPECT_THAT(events, ElementsAre("step", "end"));
}

}  // namespace
}  // namespace lockstep::worker
