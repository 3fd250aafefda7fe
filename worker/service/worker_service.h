#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/rpc/poller.h"
#include "common/rpc/rpc_connection.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "worker/service/lease_ledger.h"
#include "worker/service/standard_calls.h"
#include "worker/service/step_stream.h"
#include "worker/service/worker_metrics.h"
#include "worker/steps/executor_thread.h"

namespace lockstep::worker {

struct WorkerServiceOptions {
  uint32_t max_steps_in_flight = 4;
  int max_message_bytes = 64 << 20;  // of a step
  // Open streams, including streams of ended leases.
  uint32_t max_streams = 8;
  // How long the sequences of a stand-in's lease may run on once the lease is asked back.
  absl::Duration hand_back_grace = absl::Seconds(30);
  // How long the service thread polls after an event while steps are in flight, before it sleeps.
  // Useful if a core is free. On a CPU worker the forward pass needs that core.
  absl::Duration poll_window = absl::ZeroDuration();
};

// lockstep.worker.v1.Worker, with health and reflection: leases and streams of steps, in front of
// the executor. Owns the service thread ("step-stream"), which polls the connections, the calls and
// the lease ledger. Never looks into a step: the executor checks steps. The memory that clients can
// make it hold is bounded for each connection. A stream without a lease gets little.
class WorkerService final : private StepStream::Host, private RpcHandler {
 public:
  // `description` is the answer to Describe, without last_epoch. `executor` and `metrics` outlive
  // this. The executor's queue holds QueueCapacity(options) items.
  WorkerService(v1::DescribeResponse description, ExecutorThread& executor, WorkerMetrics& metrics,
                const WorkerServiceOptions& options);
  WorkerService(const WorkerService&) = delete;
  WorkerService& operator=(const WorkerService&) = delete;
  ~WorkerService();  // Stop() has been called, if Start() was

  static size_t QueueCapacity(const WorkerServiceOptions& options);

  void Start();
  // Serves a connection; any thread, after Start. Takes the descriptor, which must not block. `ssl`
  // null: plaintext.
  void Serve(int descriptor, SslPtr ssl);

  // After this returns, claims are refused and results say that the worker drains. The lease ends
  // when none of its sequences runs.
  void BeginDrain();
  // Returns false if a lease is still held after `timeout`.
  bool WaitUntilNoLease(absl::Duration timeout);
  // Ends every call, gives the last statuses a moment to leave, and joins the service thread. No
  // connections may arrive afterwards.
  void Stop();

 private:
  using CallKey = std::pair<const RpcConnection*, RpcConnection::CallId>;

  absl::Status OnClaim(StepStream& stream, const v1::StepRequest& message) override;
  void OnLeaseEnd(uint64_t epoch) override;
  void OnQuiet(StepStream& stream) override;
  void OnOver(StepStream& stream) override;
  void RecordStep(const v1::StepResult& result, const StepStats& stats) override;
  uint64_t incarnation() const override { return description_.incarnation(); }
  bool draining() const override { return draining_; }
  void Post(Poller::Task task) override { poller_.Post(std::move(task)); }
  void OnRpcEvent(RpcConnection& connection, RpcEvent event) override;
  void OnClosed(RpcConnection& connection, const absl::Status& reason) override;

  void Loop();
  void PollOnce();
  bool StepsInFlight() const;
  void OpenCall(RpcConnection& connection, const RpcEvent& event);
  void OpenStream(const std::shared_ptr<RpcConnection>& connection, RpcConnection::CallId call);
  void AnswerDescribe(RpcConnection& connection, RpcConnection::CallId call,
                      const std::string& bytes);
  void OnDrain();
  void EndAll();
  bool AnythingUnsent();
  void EndHandBack();
  StepStream* LivingStream();
  // The worker's own router has claimed, so the lease of its stand-in must end soon.
  void HandBack();
  // The lease of `stream` must end soon. Ends it if none of its sequences runs.
  void EndIfDrained(StepStream& stream);
  void PublishLease();

  const WorkerServiceOptions options_;
  const v1::DescribeResponse description_;
  ExecutorThread& executor_;
  WorkerMetrics& metrics_;
  Poller poller_;

  // Service thread only.
  LeaseLedger ledger_;
  StandardCalls standard_;
  absl::flat_hash_map<const RpcConnection*, std::shared_ptr<RpcConnection>> connections_;
  std::vector<std::unique_ptr<StepStream>> streams_;
  absl::flat_hash_map<CallKey, StepStream*> streams_by_call_;  // calls that are not over
  bool stopping_ = false;
  Instant hand_back_by_ = Instant::InfiniteFuture();  // when the asked-back lease is cut off

  std::atomic<bool> draining_ = false;

  Mutex mutex_;
  CondVar lease_changed_;
  bool leased_ ABSL_GUARDED_BY(mutex_) = false;

  NamedThread thread_;
};

}  // namespace lockstep::worker
