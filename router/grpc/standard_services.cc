#include "router/grpc/standard_services.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/standard/standard.pb.h"
#include "router/grpc/standard_answers.h"

namespace lockstep::router {
namespace {

using Health = standard::HealthCheckResponse;

constexpr size_t kMaxServiceNameBytes = 200;

enum class Method { kCheck, kWatch, kReflect, kUnknown };

Method MethodOf(const std::string& name) {
  if (name == "/grpc.health.v1.Health/Check") return Method::kCheck;
  if (name == "/grpc.health.v1.Health/Watch") return Method::kWatch;
  if (name == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
      name == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") {
    return Method::kReflect;
  }
  return Method::kUnknown;
}

// Empties the buffer.
template <typename Message>
bool Parse(grpc::ByteBuffer& buffer, Message& message) {
  grpc::Slice slice;
  const bool whole = buffer.Valid() && buffer.DumpToSingleSlice(&slice).ok();
  buffer.Clear();
  return whole && message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

template <typename Message>
grpc::ByteBuffer Serialize(const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

// One call, from listening for it to its last tag. Reads a message, answers it, and so on until the
// client has no more; of Watch only the first, which it answers whenever the answer changes. On the
// loop's thread alone.
class StandardServices::Call final : public Strand, public std::enable_shared_from_this<Call> {
 public:
  // The object keeps itself alive until gRPC is done with it.
  static void Listen(StandardServices& services, std::shared_ptr<GrpcLoop> loop) {
    const auto call = std::make_shared<Call>(services, std::move(loop));
    call->self_ = call;
    call->loop_->AddUser();
    grpc::ServerCompletionQueue* const queue = call->loop_->queue();
    call->context_.AsyncNotifyWhenDone(call->done_tag_.id());
    services.generic_.RequestCall(&call->context_, &call->stream_, queue, queue,
                                  call->accepted_tag_.id());
  }

  Call(StandardServices& services, std::shared_ptr<GrpcLoop> loop)
      : services_(services), loop_(std::move(loop)) {}

  // From any thread: what it watches changed.
  void OnChange() { loop_->Schedule(shared_from_this()); }
  void RunStrand() override { WriteHealth(); }

 private:
  void OnAccepted(bool ok) {
    if (!ok) {  // the server shuts down; no other tag will come
      done_ = true;
      finished_ = true;
      return LeaveIfOver();
    }
    Call::Listen(services_, loop_);
    method_ = MethodOf(context_.method());
    if (method_ == Method::kUnknown || (method_ == Method::kReflect && !services_.reflection_)) {
      return Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method"));
    }
    Read();
  }

  void Read() {
    reading_ = true;
    stream_.Read(&incoming_, read_tag_.id());
  }

  void OnRead(bool ok) {
    reading_ = false;
    if (!ok) {
      Finish(grpc::Status::OK);
      return LeaveIfOver();
    }
    if (finishing_) return LeaveIfOver();
    method_ == Method::kReflect ? AnswerReflection() : AnswerHealth();
  }

  void AnswerReflection() {
    standard::ReflectionRequest request;
    if (!Parse(incoming_, request)) return FinishMalformed();
    Write(Serialize(Reflect(request, {services_.service_})));
  }

  void AnswerHealth() {
    standard::HealthCheckRequest request;
    if (!Parse(incoming_, request)) return FinishMalformed();
    if (request.service().size() > kMaxServiceNameBytes) {
      return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                 fmt::format("service: expected at most {} bytes, got {}",
                                             kMaxServiceNameBytes, request.service().size())));
    }
    asked_for_ = request.service();
    if (method_ == Method::kCheck && HealthNow() == Health::SERVICE_UNKNOWN) {
      return Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "service name unknown"));
    }
    if (method_ == Method::kWatch) {
      MutexLock lock(services_.mutex_);
      services_.watchers_.insert(shared_from_this());
    }
    WriteHealth();
  }

  Health::ServingStatus HealthNow() const {
    if (asked_for_.empty()) return Health::SERVING;
    if (asked_for_ != services_.service_) return Health::SERVICE_UNKNOWN;
    MutexLock lock(services_.mutex_);
    return services_.serving_ ? Health::SERVING : Health::NOT_SERVING;
  }

  // If it differs from what was told.
  void WriteHealth() {
    if (finishing_ || writing_) return;
    const Health::ServingStatus now = HealthNow();
    if (now == told_) return;
    told_ = now;
    Health response;
    response.set_status(now);
    Write(Serialize(response));
  }

  void Write(const grpc::ByteBuffer& message) {
    writing_ = true;
    stream_.Write(message, written_tag_.id());
  }

  void OnWritten(bool ok) {
    writing_ = false;
    if (!ok) Finish(grpc::Status::CANCELLED);
    if (finish_status_.has_value()) stream_.Finish(*finish_status_, finished_tag_.id());
    if (finishing_) return LeaveIfOver();
    method_ == Method::kWatch ? WriteHealth() : Read();
  }

  void FinishMalformed() {
    Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the message cannot be parsed"));
  }
  // Once the write in progress is over.
  void Finish(const grpc::Status& status) {
    if (std::exchange(finishing_, true)) return;
    if (writing_) {
      finish_status_ = status;
    } else {
      stream_.Finish(status, finished_tag_.id());
    }
  }

  void OnFinished(bool /*ok*/) {
    finished_ = true;
    LeaveIfOver();
  }
  void OnDone(bool /*ok*/) {
    done_ = true;
    Finish(grpc::Status::CANCELLED);
    LeaveIfOver();
  }

  void LeaveIfOver() {
    if (!done_ || !finished_ || reading_ || writing_) return;
    {
      MutexLock lock(services_.mutex_);
      services_.watchers_.erase(shared_from_this());
    }
    loop_->RemoveUser();
    self_.reset();
  }

  StandardServices& services_;
  const std::shared_ptr<GrpcLoop> loop_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer incoming_;
  MethodTag<Call> accepted_tag_{this, &Call::OnAccepted};
  MethodTag<Call> read_tag_{this, &Call::OnRead};
  MethodTag<Call> written_tag_{this, &Call::OnWritten};
  MethodTag<Call> finished_tag_{this, &Call::OnFinished};
  MethodTag<Call> done_tag_{this, &Call::OnDone};

  Method method_ = Method::kUnknown;
  std::string asked_for_;                      // of Health
  std::optional<Health::ServingStatus> told_;  // last
  std::optional<grpc::Status> finish_status_;  // that waits for the end of a write
  bool reading_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool done_ = false;
  std::shared_ptr<Call> self_;
};

void StandardServices::Listen(const std::shared_ptr<GrpcLoop>& loop) { Call::Listen(*this, loop); }

size_t StandardServices::num_watchers() const {
  MutexLock lock(mutex_);
  return watchers_.size();
}

void StandardServices::SetServing(bool serving) {
  std::vector<std::shared_ptr<Call>> watchers;
  {
    MutexLock lock(mutex_);
    if (std::exchange(serving_, serving) == serving) return;
    watchers.assign(watchers_.begin(), watchers_.end());
  }
  for (const std::shared_ptr<Call>& watcher : watchers) watcher->OnChange();
}

}  // namespace lockstep::router
