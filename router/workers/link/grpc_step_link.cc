#include "router/workers/link/grpc_step_link.h"

#include <absl/time/clock.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "common/runtime/wait_until.h"
#include "common/status.h"
#include "lockstep/worker/v1/worker.grpc.pb.h"
#include "router/workers/link/lease_claims.h"
#include "router/workers/link/orphan_watch.h"
#include "router/workers/link/reattach_backoff.h"
#include "router/workers/link/worker_channel.h"

namespace lockstep::router {
namespace {

namespace wire = worker::v1;

using Stream = grpc::ClientAsyncReaderWriter<wire::StepRequest, wire::StepResult>;

// How often a worker that belongs to another router is looked at.
constexpr absl::Duration kStandbyLook = absl::Seconds(1);

// One attempt to get and hold the lease. Once the stream exists, the link's mutex guards everything
// except describe_context.
struct Lease {
  grpc::ClientContext describe_context;
  grpc::ClientContext context;
  wire::DescribeResponse description;
  std::unique_ptr<Stream> stream;
  uint64_t epoch = 0;                     // 0 until claimed
  bool up = false;                        // the claim was granted
  bool writable = false;                  // the stream is open and the lease was not dropped
  bool writing = false;                   // one write is in progress
  bool described = false;                 // Describe ended; `end` says how
  bool finished = false;                  // the stream ended; `end` says how
  std::deque<wire::StepRequest> waiting;  // behind that write; bounded by the steps in flight
  wire::StepRequest claim;
  wire::StepResult incoming;
  grpc::Status end;  // status of the call that ended last
  absl::Status drop_reason;
  LeaseRecord record;  // used once up
  // Set if the router leaves the worker to another one, for this long at least.
  std::optional<absl::Duration> standby;

  bool over() const { return finished && !writing; }
};

}  // namespace

class GrpcStepLink::Impl {
 public:
  Impl(WorkerClientConfig config, std::shared_ptr<GrpcLoop> loop)
      : config_(std::move(config)),
        loop_(std::move(loop)),
        watch_(config_.orphan_wait * config_.shard_rank) {
    Connect();
  }

  void Start(LinkEventSink* sink) {
    sink_ = sink;
    thread_ = NamedThread(fmt::format("worker-{}", config_.index), [this] { Run(); });
  }

  void Send(wire::StepRequest request) {
    MutexLock lock(mutex_);
    if (lease_ == nullptr || !lease_->writable || lease_->epoch != request.epoch()) return;
    lease_->record.OnStepSent();
    if (lease_->writing) {
      lease_->waiting.push_back(std::move(request));
      return;
    }
    lease_->writing = true;
    lease_->stream->Write(request, written_tag_.id());
  }

  void DropLease(uint64_t epoch, const absl::Status& reason) {
    MutexLock lock(mutex_);
    if (lease_ == nullptr || lease_->epoch != epoch || !lease_->writable) return;
    lease_->writable = false;
    lease_->drop_reason = reason;
    lease_->context.TryCancel();
  }

  void LeaveOrphans() { leaves_orphans_.store(true); }

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      if (lease_ != nullptr) {
        lease_->describe_context.TryCancel();
        lease_->context.TryCancel();
      }
    }
    stop_requested_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }

 private:
  // Makes a new connection. The previous one is not used again.
  void Connect() { stub_ = wire::Worker::NewStub(MakeWorkerChannel(config_)); }

  void Run() {
    ReattachBackoff backoff({.min_pause = config_.min_backoff,
                             .max_pause = config_.max_backoff,
                             .max_lease_pause = config_.max_lease_backoff});
    std::string last_problem;
    std::string last_standby;
    for (;;) {
      Lease lease;
      {
        MutexLock lock(mutex_);
        if (stopping_) return;
        lease_ = &lease;
      }
      const bool was_up = HoldLease(lease);
      ever_up_ |= was_up;
      // The connection may be half open. It would learn that only from its own pings.
      if (absl::IsDeadlineExceeded(lease.drop_reason)) Connect();
      bool was_well = false;
      {
        MutexLock lock(mutex_);
        lease_ = nullptr;
        was_well = was_up && lease.record.WasWell(MonotonicNow(), config_.stable_lease);
        if (stopping_) return;
      }
      if (lease.standby.has_value()) {
        last_problem.clear();
        if (std::string reason = Message(lease.drop_reason); reason != last_standby) {
          spdlog::info("worker {}: {}", config_.address, reason);
          sink_->OnLinkEvent(
              LinkStandby{.text = reason, .served = lease.description.live_epoch() != 0});
          last_standby = std::move(reason);
        }
        if (!Sleep(std::clamp(*lease.standby, config_.min_backoff, kStandbyLook))) return;
        continue;
      }
      last_standby.clear();
      if (was_up) {
        last_problem.clear();
      } else if (std::string problem = Message(lease.drop_reason); problem != last_problem) {
        spdlog::warn("worker {}: {}", config_.address, problem);
        last_problem = std::move(problem);
      }
      sink_->OnLinkEvent(
          LinkDown{.epoch = was_up ? lease.epoch : 0,
                   .reason = Annotate(lease.drop_reason, "worker " + config_.address)});
      if (!Sleep(was_up ? backoff.AfterLease(was_well) : backoff.AfterFailedAttempt())) return;
    }
  }

  // Sleeps between half and all of `duration`. Returns false if the link must stop.
  bool Sleep(absl::Duration duration) {
    const double share = std::uniform_real_distribution<double>(0.5, 1.0)(random_);
    const auto deadline =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration * share);
    MutexLock lock(mutex_);
    while (!stopping_) {
      if (!WaitUntil(mutex_, stop_requested_, deadline)) return true;
    }
    return false;
  }

  // Returns when the lease is over or was not granted. lease.drop_reason says why. True if the
  // lease was up.
  bool HoldLease(Lease& lease) {
    if (const absl::Status status = Describe(lease); !status.ok()) {
      lease.drop_reason = status;
      return false;
    }
    if (LeftToAnother(lease)) return false;
    // Asked last: another router's worker may have other weights than those of this router.
    if (const absl::Status status = CheckAgreement(lease.description); !status.ok()) {
      lease.drop_reason = status;
      return false;
    }
    RunStream(lease);
    if (!lease.up && IsRefusal(lease.end)) claims_.OnRefused();
    if (lease.drop_reason.ok()) lease.drop_reason = CallFailed("Execute", lease.end);
    return lease.up;
  }

  absl::Status Describe(Lease& lease) {
    wire::DescribeRequest request;
    request.set_protocol_version(kStepProtocolVersion);
    lease.describe_context.set_deadline(absl::ToChronoTime(absl::Now() + config_.call_timeout));
    loop_->AddUser();
    {
      MutexLock lock(mutex_);
      const auto call = stub_->AsyncDescribe(&lease.describe_context, request, loop_->queue());
      call->Finish(&lease.description, &lease.end, described_tag_.id());
      while (!lease.described) lease_changed_.Wait(mutex_);
    }
    const grpc::Status& status = lease.end;
    // A channel looks its name up again only after 30 s, and after up to 2 min if the name was
    // unknown. A worker that has a new address would wait for that. A new channel looks at once.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
        status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      Connect();
    }
    if (!status.ok()) return CallFailed("Describe", status);
    return CheckDescription(lease.description, config_.expected);
  }

  absl::Status CheckAgreement(const wire::DescribeResponse& description) {
    if (config_.agreement == nullptr) return absl::OkStatus();
    return config_.agreement->Check(BitsOf(description));
  }

  // A worker that belongs to another router is left alone unless it is an orphan. A lease of ours
  // whose end the worker has not noticed is taken up again.
  bool LeftToAnother(Lease& lease) {
    if (config_.shard_rank == 0) return false;
    const uint64_t live = lease.description.live_epoch();
    if (live != 0 && claims_.IsOurs(live)) return false;
    absl::Duration left = watch_.Look({.incarnation = lease.description.incarnation(),
                                       .last_epoch = lease.description.last_epoch(),
                                       .live_epoch = live},
                                      MonotonicNow());
    if (left <= absl::ZeroDuration()) {
      if (!leaves_orphans_.load()) return false;
      left = kStandbyLook;
    }
    lease.standby = left;
    lease.drop_reason =
        live != 0 ? Unavailable("another router serves the worker")
                  : Unavailable("the worker belongs to another router, which does not serve it");
    return true;
  }

  wire::StepRequest MakeClaim(const wire::DescribeResponse& description) {
    const bool ours = claims_.IsOurs(description.last_epoch());
    const bool stands_in = config_.shard_rank > 0;
    wire::StepRequest claim;
    claim.set_epoch(claims_.Claim(description.last_epoch(), absl::Now()));
    claim.mutable_claim()->set_takeover((config_.takeover && !ever_up_ && !stands_in) || ours);
    claim.mutable_claim()->set_stand_in(stands_in);
    claim.mutable_claim()->set_expected_incarnation(description.incarnation());
    return claim;
  }

  // Returns when the loop has no more tags of the stream.
  void RunStream(Lease& lease) {
    lease.claim = MakeClaim(lease.description);
    const auto grant_deadline =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(config_.call_timeout);
    MutexLock lock(mutex_);
    lease.epoch = lease.claim.epoch();
    loop_->AddUser();
    lease.stream = stub_->PrepareAsyncExecute(&lease.context, loop_->queue());
    lease.stream->StartCall(started_tag_.id());
    while (!lease.over() && !lease.up) {
      if (WaitUntil(mutex_, lease_changed_, grant_deadline)) continue;
      lease.drop_reason = absl::UnavailableError("the claim was not answered in time");
      lease.context.TryCancel();
      break;
    }
    while (!lease.over()) lease_changed_.Wait(mutex_);
  }

  // --- on the loop's thread, while Describe waits ---
  void OnDescribed(bool /*ok*/) {
    loop_->RemoveUser();
    MutexLock lock(mutex_);
    lease_->described = true;
    lease_changed_.NotifyAll();
  }

  // --- on the loop's thread, while RunStream waits ---
  void OnStarted(bool ok) {
    MutexLock lock(mutex_);
    if (!ok) return lease_->stream->Finish(&lease_->end, finished_tag_.id());
    lease_->writing = true;
    lease_->stream->Write(lease_->claim, written_tag_.id());
    lease_->stream->Read(&lease_->incoming, read_tag_.id());
  }

  void OnWritten(bool ok) {
    MutexLock lock(mutex_);
    lease_->writing = false;
    if (!ok) lease_->writable = false;  // the stream is broken, so the read fails too
    if (lease_->over()) return OnOver();
    if (!lease_->writable || lease_->waiting.empty()) return;
    lease_->writing = true;
    lease_->stream->Write(lease_->waiting.front(), written_tag_.id());
    lease_->waiting.pop_front();
  }

  void OnRead(bool ok) {
    MutexLock lock(mutex_);
    if (!ok) {
      lease_->writable = false;
      return lease_->stream->Finish(&lease_->end, finished_tag_.id());
    }
    lease_->up ? HandleResult(*lease_) : HandleGrant(*lease_);
    lease_->stream->Read(&lease_->incoming, read_tag_.id());
  }

  void OnFinished(bool /*ok*/) {
    MutexLock lock(mutex_);
    lease_->finished = true;
    if (lease_->over()) OnOver();
  }

  void OnOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    loop_->RemoveUser();
    lease_changed_.NotifyAll();
  }

  void HandleResult(Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (lease.incoming.has_refusal()) {
      lease.record.OnRefusal();
    } else {
      lease.record.OnResult(MonotonicNow());
    }
    sink_->OnLinkEvent(LinkResult{std::move(lease.incoming)});
    lease.incoming.Clear();
  }

  // The first result answers the claim. It is step 0 of our epoch.
  void HandleGrant(Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const wire::StepResult& result = lease.incoming;
    if (result.step_id() != 0 || result.epoch() != lease.epoch ||
        result.incarnation() != lease.description.incarnation()) {
      lease.drop_reason =
          Internal("the claim's answer names step {}, epoch {}, incarnation {:016x}",
                   result.step_id(), result.epoch(), result.incarnation());
      lease.context.TryCancel();
      return;
    }
    lease.up = true;
    lease.writable = true;
    lease.record.OnUp(MonotonicNow());
    if (config_.shard_rank > 0) {
      spdlog::info("worker {}: its own router is away; this router stands in", config_.address);
    }
    sink_->OnLinkEvent(LinkUp{.epoch = lease.epoch, .description = lease.description});
    lease_changed_.NotifyAll();
  }

  const WorkerClientConfig config_;
  const std::shared_ptr<GrpcLoop> loop_;
  MethodTag<Impl> described_tag_{this, &Impl::OnDescribed};
  MethodTag<Impl> started_tag_{this, &Impl::OnStarted};
  MethodTag<Impl> written_tag_{this, &Impl::OnWritten};
  MethodTag<Impl> read_tag_{this, &Impl::OnRead};
  MethodTag<Impl> finished_tag_{this, &Impl::OnFinished};
  std::unique_ptr<wire::Worker::Stub> stub_;
  std::atomic<bool> leaves_orphans_ = false;
  LinkEventSink* sink_ = nullptr;
  OrphanWatch watch_;   // used on the link's thread only
  LeaseClaims claims_;  // used on the link's thread only
  // A lease was up here, so any other holder came later. Used on the link's thread only.
  bool ever_up_ = false;
  std::mt19937_64 random_{std::random_device{}()};  // used on the link's thread only

  Mutex mutex_;
  CondVar stop_requested_;
  CondVar lease_changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Lease* lease_ ABSL_GUARDED_BY(mutex_) = nullptr;
  NamedThread thread_;
};

GrpcStepLink::GrpcStepLink(WorkerClientConfig config, std::shared_ptr<GrpcLoop> loop)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(loop))) {}

GrpcStepLink::~GrpcStepLink() { impl_->Stop(); }

void GrpcStepLink::Start(LinkEventSink* sink) { impl_->Start(sink); }

void GrpcStepLink::Send(worker::v1::StepRequest request) { impl_->Send(std::move(request)); }

void GrpcStepLink::DropLease(uint64_t epoch, const absl::Status& reason) {
  impl_->DropLease(epoch, reason);
}

void GrpcStepLink::LeaveOrphans() { impl_->LeaveOrphans(); }

void GrpcStepLink::Stop() { impl_->Stop(); }

}  // namespace lockstep::router
