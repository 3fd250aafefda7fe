#include "router/workers/link/grpc_step_link.h"

#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "common/rpc/rpc_client.h"
#include "common/rpc/rpc_connection.h"
#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "common/runtime/wait_until.h"
#include "common/status.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "router/workers/link/call_failed.h"
#include "router/workers/link/lease_claims.h"
#include "router/workers/link/orphan_watch.h"
#include "router/workers/link/reattach_backoff.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {
namespace {

namespace wire = worker::v1;

constexpr std::string_view kDescribePath = "/lockstep.worker.v1.Worker/Describe";
constexpr std::string_view kExecutePath = "/lockstep.worker.v1.Worker/Execute";

// How often a worker that belongs to another router is looked at.
constexpr absl::Duration kStandbyLook = absl::Seconds(1);

// One attempt to get and hold the lease. From the claim on, the link's mutex guards everything.
struct Lease {
  wire::DescribeResponse description;
  std::shared_ptr<RpcConnection> connection;  // null before the claim
  RpcConnection::CallId call = 0;
  uint64_t epoch = 0;     // 0 until claimed
  bool up = false;        // the claim was granted
  bool writable = false;  // the stream is open and the lease was not dropped
  bool closed = false;    // nothing more comes
  absl::Status end;       // of the call of Execute
  absl::Status drop_reason;
  LeaseRecord record;  // used once up
  // Set if the router leaves the worker to another one, for this long at least.
  std::optional<absl::Duration> standby;
};

}  // namespace

class GrpcStepLink::Impl final : private RpcHandler {
 public:
  Impl(WorkerClientConfig config, std::shared_ptr<GrpcLoop> loop)
      : config_(std::move(config)),
        loop_(std::move(loop)),
        watch_(config_.orphan_wait * config_.shard_rank) {}

  void Start(LinkEventSink* sink) {
    sink_ = sink;
    thread_ = NamedThread(fmt::format("worker-{}", config_.index), [this] { Run(); });
  }

  void Send(wire::StepRequest request) {
    MutexLock lock(mutex_);
    if (lease_ == nullptr || !lease_->writable || lease_->epoch != request.epoch()) return;
    lease_->record.OnStepSent();
    lease_->connection->Send(lease_->call, FrameMessage(request));
  }

  void DropLease(uint64_t epoch, const absl::Status& reason) {
    MutexLock lock(mutex_);
    if (lease_ == nullptr || lease_->epoch != epoch || !lease_->writable) return;
    lease_->writable = false;
    lease_->drop_reason = reason;
    lease_->connection->Close(reason);
  }

  void LeaveOrphans() { leaves_orphans_.store(true); }

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      if (client_ != nullptr) client_->Cancel();
      if (lease_ != nullptr && lease_->connection != nullptr) {
        lease_->connection->Close(absl::CancelledError("the router ends"));
      }
    }
    stop_requested_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }

 private:
  // Makes a new connection with its next call. The name of the worker is looked up again.
  std::shared_ptr<RpcClient> MakeClient() const {
    return std::make_shared<RpcClient>(
        RpcClient::Options{.address = config_.address,
                           .tls = config_.tls,
                           .limits = {.max_message_bytes = kMaxDescriptionBytes},
                           .timeouts = {.keepalive_time = config_.keepalive_time,
                                        .keepalive_timeout = config_.keepalive_timeout}});
  }

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
      bool was_well = false;
      {
        MutexLock lock(mutex_);
        lease_ = nullptr;
        // Only a router that just looks at the worker goes on with the same connection.
        if (!lease.standby.has_value()) client_ = nullptr;
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

  // On a connection that this thread polls: a worker that has no lease yet never has the loop's
  // time.
  absl::Status Describe(Lease& lease) {
    std::shared_ptr<RpcClient> client;
    {
      MutexLock lock(mutex_);
      if (stopping_) return absl::CancelledError("the router ends");
      if (client_ == nullptr) client_ = MakeClient();
      client = client_;
    }
    wire::DescribeRequest request;
    request.set_protocol_version(kStepProtocolVersion);
    const absl::StatusOr<std::string> answer =
        client->Call(kDescribePath, FrameMessage(request), config_.call_timeout);
    if (!answer.ok()) return CallFailed("Describe", answer.status());
    if (!lease.description.ParseFromString(*answer)) {
      return Unavailable("Describe failed: its answer cannot be parsed");
    }
    return CheckDescription(lease.description, config_.expected);
  }

  absl::Status CheckAgreement(const wire::DescribeResponse& description) {
    if (config_.agreement == nullptr) return absl::OkStatus();
    return config_.agreement->Check(BitsOf(description));
  }

  // A worker that belongs to another router is left alone unless it is an orphan. If the worker has
  // not noticed the end of our own lease, that lease is taken up again.
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

  // Returns when nothing of the stream can come any more.
  void RunStream(Lease& lease) {
    const wire::StepRequest claim = MakeClaim(lease.description);
    const auto grant_deadline =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(config_.call_timeout);
    MutexLock lock(mutex_);
    lease.epoch = claim.epoch();
    if (stopping_ || !client_->connected()) {
      lease.end = absl::UnavailableError("the connection ended");
      return;
    }
    lease.connection = client_->Release();
    lease.connection->SetHandler(this);
    loop_->AddUser();
    lease.connection->Attach(loop_->poller());
    lease.call = lease.connection->Call(kExecutePath);
    lease.connection->Send(lease.call, FrameMessage(claim));
    if (lease.call == 0) lease.connection->Close(absl::UnavailableError("no call can be made"));
    while (!lease.closed && !lease.up) {
      if (WaitUntil(mutex_, lease_changed_, grant_deadline)) continue;
      lease.drop_reason = absl::UnavailableError("the claim was not answered in time");
      lease.connection->Close(lease.drop_reason);
      break;
    }
    while (!lease.closed) lease_changed_.Wait(mutex_);
  }

  // --- on the loop's thread, while RunStream waits ---
  void OnRpcEvent(RpcConnection& connection, RpcEvent event) override {
    if (event.kind == RpcEvent::Kind::kMessage) {
      const bool parsed = incoming_.ParseFromString(event.bytes);
      MutexLock lock(mutex_);
      if (!parsed) return Drop(*lease_, absl::UnavailableError("a result cannot be parsed"));
      lease_->up ? HandleResult(*lease_) : HandleGrant(*lease_);
    } else if (event.kind == RpcEvent::Kind::kEnd) {
      MutexLock lock(mutex_);
      lease_->writable = false;
      lease_->end = std::move(event.status);
      connection.Close(absl::UnavailableError("the stream ended"));
    }
  }

  void OnClosed(RpcConnection& /*connection*/, const absl::Status& /*reason*/) override {
    loop_->RemoveUser();
    MutexLock lock(mutex_);
    lease_->writable = false;
    lease_->closed = true;
    lease_changed_.NotifyAll();
  }

  void Drop(Lease& lease, const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    lease.writable = false;
    lease.drop_reason = reason;
    lease.connection->Close(reason);
  }

  void HandleResult(Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (incoming_.has_refusal()) {
      lease.record.OnRefusal();
    } else {
      lease.record.OnResult(MonotonicNow());
    }
    sink_->OnLinkEvent(LinkResult{std::move(incoming_)});
    incoming_.Clear();
  }

  // The first result answers the claim. It is step 0 of our epoch.
  void HandleGrant(Lease& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (incoming_.step_id() != 0 || incoming_.epoch() != lease.epoch ||
        incoming_.incarnation() != lease.description.incarnation()) {
      return Drop(lease, Internal("the claim's answer names step {}, epoch {}, incarnation {:016x}",
                                  incoming_.step_id(), incoming_.epoch(), incoming_.incarnation()));
    }
    lease.connection->Allow(lease.call, RpcLimits::kAllMessages,
                            std::min(MaxResultBytes(lease.description),
                                     static_cast<size_t>(config_.max_message_bytes)));
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
  std::atomic<bool> leaves_orphans_ = false;
  LinkEventSink* sink_ = nullptr;
  OrphanWatch watch_;   // used on the link's thread only
  LeaseClaims claims_;  // used on the link's thread only
  // A lease was up here, so any other holder came later. Used on the link's thread only.
  bool ever_up_ = false;
  std::mt19937_64 random_{std::random_device{}()};  // used on the link's thread only
  wire::StepResult incoming_;                       // used on the loop's thread only

  Mutex mutex_;
  CondVar stop_requested_;
  CondVar lease_changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Lease* lease_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // For Describe. The link's thread alone makes calls with it. Null: the next attempt makes one.
  std::shared_ptr<RpcClient> client_ ABSL_GUARDED_BY(mutex_);
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
