#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/runtime/bounded_queue.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "router/core/messages/request.h"
#include "router/workers/step_link.h"
#include "tests/support/fake_forward_model.h"
#include "worker/cpu/step_runner.h"

namespace lockstep::testing {

// A real CpuStepRunner over the fake model, in the test's process. Used by one thread at a time.
class FakeWorker {
 public:
  explicit FakeWorker(const FakeModelOptions& options = {}, uint32_t max_slots = 8);

  // A new lease, above every epoch before.
  router::LinkUp Claim();
  // A new life: nothing of the KV cache is left.
  void Restart();
  router::LinkResult Execute(const worker::v1::StepRequest& step);
  // What Describe says of the bits from now on; 0 and 0 at first.
  void SetBits(uint64_t numerics_id, uint64_t weights_fingerprint);
  // Results say from now on that the worker leaves, until Restart.
  void Drain() { draining_ = true; }
  // Results say from now on that the lease is asked back, until the next claim.
  void AskBack() { asked_back_ = true; }
  uint32_t num_live_slots() const { return executor_->last_step().num_live_slots; }

  FakeForwardModel& model() { return *model_; }
  uint64_t epoch() const { return epoch_; }
  uint64_t incarnation() const { return incarnation_; }

 private:
  const FakeModelOptions options_;
  const uint32_t max_slots_;
  uint64_t incarnation_ = 0;
  uint64_t epoch_ = 0;
  uint64_t numerics_id_ = 0;
  uint64_t weights_fingerprint_ = 0;
  bool draining_ = false;
  bool asked_back_ = false;
  std::unique_ptr<FakeForwardModel> model_;
  std::unique_ptr<worker::CpuStepRunner> executor_;
};

// The greedy continuation of `prompt` by a fresh FakeForwardModel of these options.
std::vector<TokenId> GreedyTokens(const FakeModelOptions& options, std::vector<TokenId> prompt,
                                  uint32_t num_tokens);

// A link whose steps wait until the test runs them.
class ManualLink final : public router::StepLink {
 public:
  explicit ManualLink(FakeWorker& worker) : worker_(worker) {}

  void Start(router::LinkEventSink*) override {}
  void Send(worker::v1::StepRequest request) override { sent_.push_back(std::move(request)); }
  void DropLease(uint64_t epoch, const absl::Status& reason) override;
  void Stop() override {}

  // The result of the oldest step sent; nullopt when there is none.
  std::optional<router::LinkResult> RunNext();
  // The worker refuses the oldest step sent; nullopt when there is none.
  std::optional<router::LinkResult> RefuseNext();
  // The lease ends; its steps are lost.
  router::LinkDown Break(const absl::Status& reason);

  size_t num_sent() const { return sent_.size(); }
  const std::optional<absl::Status>& drop_reason() const { return drop_reason_; }

 private:
  FakeWorker& worker_;
  std::deque<worker::v1::StepRequest> sent_;
  std::optional<absl::Status> drop_reason_;
};

// A link with a thread of its own that claims, executes and reports, until it is told to lose its
// worker.
class ThreadedLink final : public router::StepLink {
 public:
  explicit ThreadedLink(const FakeModelOptions& options = {}, uint32_t max_slots = 8);
  ~ThreadedLink() override;

  void Start(router::LinkEventSink* sink) override;
  void Send(worker::v1::StepRequest request) override;
  void DropLease(uint64_t epoch, const absl::Status& reason) override;
  void Stop() override;

  // The worker dies, what was sent to it is lost, and another life of it comes at once.
  void Restart();
  // The worker dies and stays away until Restart.
  void Kill();
  // Results say from now on that the worker leaves, until Restart.
  void Drain();
  // Steps wait from now on, until Resume.
  void Pause();
  void Resume();

 private:
  enum class Command { kRestart, kKill, kDrain };
  void Run();
  void Push(std::optional<Command> command);

  FakeWorker worker_;
  router::LinkEventSink* sink_ = nullptr;
  Mutex mutex_;
  CondVar changed_;
  std::deque<worker::v1::StepRequest> steps_ ABSL_GUARDED_BY(mutex_);
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

}  // namespace lockstep::testing
