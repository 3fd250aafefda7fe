#pragma once

#include <absl/time/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "lockstep/worker/v1/worker.grpc.pb.h"
#include "worker/service/describe_call.h"
#include "worker/service/lease_ledger.h"
#include "worker/service/step_stream.h"
#include "worker/service/worker_metrics.h"
#include "worker/steps/executor_thread.h"

namespace lockstep::worker {

struct WorkerServiceOptions {
  uint32_t max_steps_in_flight = 4;
  // Streams open at once, including those that are being fenced off.
  uint32_t max_streams = 8;
  // How long the sequences of a stand-in's lease may run on once the lease is asked back.
  absl::Duration hand_back_grace = absl::Seconds(30);
  // How long the service thread polls after an event while steps are in flight, before it sleeps.
  // Worth it if a core can be spared. On a CPU worker the forward pass needs that core.
  absl::Duration poll_window = absl::ZeroDuration();
};

// lockstep.worker.v1.Worker: leases and streams of steps, in front of the executor. Owns the
// service thread ("step-stream") with its completion queue, the calls and the lease ledger. Never
// looks into a step: the executor checks steps.
class WorkerService final : private StepStream::Host, private DescribeCall::Host {
 public:
  // `description` is the answer to Describe, without last_epoch. `executor` and `metrics` outlive
  // this. The executor's queue holds QueueCapacity(options) items.
  WorkerService(v1::DescribeResponse description, ExecutorThread& executor, WorkerMetrics& metrics,
                const WorkerServiceOptions& options);
  WorkerService(const WorkerService&) = delete;
  WorkerService& operator=(const WorkerService&) = delete;
  ~WorkerService();  // Stop() has been called, if Start() was

  static size_t QueueCapacity(const WorkerServiceOptions& options);

  // Call Register before the server is built, and Start after that.
  void Register(grpc::ServerBuilder& builder);
  void Start();

  // When it returns, claims are refused and results say that the worker drains. The lease ends as
  // soon as none of its sequences runs.
  void BeginDrain();
  // Returns false if a lease is still held after `timeout`.
  bool WaitUntilNoLease(absl::Duration timeout);
  // Joins the service thread. Call after the server has been shut down.
  void Stop();

 private:
  bool OnAccepted(StepStream& stream) override;
  absl::Status OnClaim(StepStream& stream, const v1::StepRequest& message) override;
  void OnLeaseEnd(uint64_t epoch) override;
  void OnQuiet(StepStream& stream) override;
  void OnOver(StepStream& stream) override;
  void RecordStep(const v1::StepResult& result, const StepStats& stats) override;
  uint64_t incarnation() const override { return description_.incarnation(); }
  bool draining() const override { return draining_; }
  void OnDescribe(v1::DescribeResponse* response) override;
  void OnOver(DescribeCall& call) override;

  void Loop();
  bool NextEvent(void** id, bool* ok);
  bool StepsInFlight() const;
  void OnDrainAlarm(bool ok);
  void OnStopAlarm(bool ok);
  void OnHandBackAlarm(bool ok);
  StepStream* LivingStream();
  // The router that the worker belongs to has claimed: the lease of its stand-in ends soon.
  void HandBack();
  // The lease of `stream` must end soon. Ends it if none of its sequences runs.
  void EndIfDrained(StepStream& stream);
  void ListenForStream();
  void ListenForDescribe();
  void PublishLease();

  const WorkerServiceOptions options_;
  const v1::DescribeResponse description_;
  ExecutorThread& executor_;
  WorkerMetrics& metrics_;
  v1::Worker::AsyncService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  bool started_ = false;

  // Service thread only.
  LeaseLedger ledger_;
  std::vector<std::unique_ptr<StepStream>> streams_;
  std::vector<std::unique_ptr<DescribeCall>> describes_;
  bool stopping_ = false;
  std::optional<grpc::Alarm> hand_back_alarm_;
  Instant hand_back_by_ = Instant::InfiniteFuture();  // when the alarm rings

  std::atomic<bool> draining_ = false;
  grpc::Alarm drain_alarm_;
  grpc::Alarm stop_alarm_;
  MethodTag<WorkerService> drain_tag_{this, &WorkerService::OnDrainAlarm};
  MethodTag<WorkerService> stop_tag_{this, &WorkerService::OnStopAlarm};
  MethodTag<WorkerService> hand_back_tag_{this, &WorkerService::OnHandBackAlarm};

  Mutex mutex_;
  CondVar lease_changed_;
  bool leased_ ABSL_GUARDED_BY(mutex_) = false;

  NamedThread thread_;
};

}  // namespace lockstep::worker
