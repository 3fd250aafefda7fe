#include "router/api/grpc_generate_call.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "router/api/grpc_status.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

using Reactor = grpc::ServerWriteReactor<v1::GenerateResponse>;

namespace {

class RefusedCall final : public Reactor {
 public:
  explicit RefusedCall(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Tenant>> IdentifyCaller(
    const Gatekeeper& gatekeeper, const grpc::CallbackServerContext& server_context) {
  const auto [first, last] = server_context.client_metadata().equal_range("authorization");
  // Of two nobody could say which one counts.
  const bool one = first != last && std::next(first) == last;
  return gatekeeper.Identify(one ? std::string_view(first->second.data(), first->second.size())
                                 : std::string_view());
}

Reactor* GrpcGenerateCall::Start(ApiContext& context, grpc::CallbackServerContext* server_context,
                                 const v1::GenerateRequest* request) {
  absl::StatusOr<std::shared_ptr<const Tenant>> tenant =
      IdentifyCaller(context.gatekeeper, *server_context);
  if (!tenant.ok()) {
    RouterMetrics::At(context.metrics.requests_total, tenant.status().code()).Increment();
    return new RefusedCall(ToGrpcStatus(tenant.status()));
  }
  const auto call =
      std::make_shared<GrpcGenerateCall>(context, server_context, request, *std::move(tenant));
  call->self_ = call;
  if (call->Admit()) call->GenerateCall::Start();
  return call.get();
}

GrpcGenerateCall::GrpcGenerateCall(ApiContext& context, grpc::CallbackServerContext* server_context,
                                   const v1::GenerateRequest* request,
                                   std::shared_ptr<const Tenant> tenant)
    : GenerateCall(context, {.request = request,
                             .deadline = absl::FromChrono(server_context->deadline()),
                             .max_messages_per_write = 1,
                             .tenant = std::move(tenant)}),
      server_context_(server_context) {}

void GrpcGenerateCall::StartWrite(std::span<const v1::GenerateResponse> messages) {
  Reactor::StartWrite(&messages.front());
}

void GrpcGenerateCall::StartLastWrite(std::span<const v1::GenerateResponse> messages) {
  StartWriteAndFinish(&messages.front(), grpc::WriteOptions(), grpc::Status::OK);
}

void GrpcGenerateCall::End(const absl::Status& status) {
  grpc::Status final_status;
  {
    // Not done before Finish.
    MutexLock lock(context_mutex_);
    final_status = FinalStatus(status, context().config.retry_after, *server_context_);
  }
  Finish(std::move(final_status));
}

void GrpcGenerateCall::CutOff() {
  MutexLock lock(context_mutex_);
  if (server_context_ != nullptr) server_context_->TryCancel();
}

void GrpcGenerateCall::OnDone() {
  {
    MutexLock lock(context_mutex_);
    server_context_ = nullptr;
  }
  self_.reset();
}

}  // namespace lockstep::router
