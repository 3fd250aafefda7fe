#include "worker/service/standard_calls.h"

#include "common/grpc/reflection.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

constexpr size_t kMaxServiceNameBytes = 200;
// A question about a symbol or a file.
constexpr size_t kMaxQuestionBytes = 4 << 10;

absl::Status Unparsed() { return InvalidArgument("the message cannot be parsed"); }

}  // namespace

bool StandardCalls::Open(const std::shared_ptr<RpcConnection>& connection, const RpcEvent& event) {
  Kind kind = Kind::kCheck;
  if (event.bytes == "/grpc.health.v1.Health/Check") {
    kind = Kind::kCheck;
  } else if (event.bytes == "/grpc.health.v1.Health/Watch") {
    kind = Kind::kWatch;
  } else if (event.bytes == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
             event.bytes == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") {
    kind = Kind::kReflection;
  } else {
    return false;
  }
  calls_[{connection.get(), event.call}] = {
      .kind = kind, .connection = connection, .id = event.call, .watched = {}, .asked = false};
  return true;
}

bool StandardCalls::OnEvent(RpcConnection& connection, const RpcEvent& event) {
  const auto found = calls_.find(Key(&connection, event.call));
  if (found == calls_.end()) return false;
  OpenCall& call = found->second;
  if (event.kind == RpcEvent::Kind::kEnd) {
    calls_.erase(found);
  } else if (event.kind == RpcEvent::Kind::kMessage) {
    OnMessage(call, event.bytes);
  } else if (call.kind == Kind::kReflection) {
    connection.Finish(call.id, absl::OkStatus());
  } else if (!call.asked) {
    connection.Finish(call.id, Unparsed());
  }
  return true;
}

void StandardCalls::OnMessage(OpenCall& call, const std::string& bytes) {
  call.asked = true;
  if (call.kind == Kind::kReflection) return Reflect(call, bytes);
  standard::HealthCheckRequest request;
  if (!request.ParseFromString(bytes)) return call.connection->Finish(call.id, Unparsed());
  if (request.service().size() > kMaxServiceNameBytes) {
    return call.connection->Finish(
        call.id, InvalidArgument("service: expected at most {} bytes, got {}", kMaxServiceNameBytes,
                                 request.service().size()));
  }
  call.watched = request.service();
  if (call.kind == Kind::kWatch) return TellHealth(call);
  if (HealthOf(call.watched) == Health::SERVICE_UNKNOWN) {
    return call.connection->Finish(call.id, NotFound("service name unknown"));
  }
  TellHealth(call);
  call.connection->Finish(call.id, absl::OkStatus());
}

void StandardCalls::Reflect(OpenCall& call, const std::string& bytes) {
  standard::ReflectionRequest request;
  if (!request.ParseFromString(bytes)) return call.connection->Finish(call.id, Unparsed());
  // The next question is taken after the answer has left, so that unread answers do not pile up.
  const bool unread = call.connection->has_unsent();
  if (unread) return call.connection->Finish(call.id, ResourceExhausted("answers are not read"));
  call.connection->Send(
      call.id, FrameMessage(lockstep::Reflect(request, {service_, "grpc.health.v1.Health"})));
  call.connection->Allow(call.id, 1, kMaxQuestionBytes);
}

void StandardCalls::OnServingChange() {
  for (auto& [key, call] : calls_) {
    if (call.kind == Kind::kWatch && call.asked) TellHealth(call);
  }
}

void StandardCalls::TellHealth(OpenCall& call) {
  Health response;
  response.set_status(HealthOf(call.watched));
  call.connection->Send(call.id, FrameMessage(response));
}

StandardCalls::Health::ServingStatus StandardCalls::HealthOf(const std::string& service) const {
  if (service.empty()) return Health::SERVING;
  if (service != service_) return Health::SERVICE_UNKNOWN;
  return serving_() ? Health::SERVING : Health::NOT_SERVING;
}

}  // namespace lockstep::worker
