#include "router/api/grpc_generate_call.h"

#include "router/api/grpc_status.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

using Reactor = grpc::ServerWriteReactor<v1::GenerateResponse>;

Reactor* GrpcGenerateCall::Start(ApiContext& context, grpc::CallbackServerContext* server_context,
                                 const v1::GenerateRequest* request) {
  const auto call = std::make_shared<GrpcGenerateCall>(context, server_context, request);
  call->self_ = call;
  if (call->Admit()) call->GenerateCall::Start();
  return call.get();
}

GrpcGenerateCall::GrpcGenerateCall(ApiContext& context, grpc::CallbackServerContext* server_context,
                                   const v1::GenerateRequest* request)
    : GenerateCall(context, {.request = request,
                             .deadline = absl::FromChrono(server_context->deadline()),
                             .max_messages_per_write = 1}),
      server_context_(server_context) {}

void GrpcGenerateCall::StartWrite(std::span<const v1::GenerateResponse> messages) {
  Reactor::StartWrite(&messages.front());
}

void GrpcGenerateCall::End(const absl::Status& status) {
  Finish(FinalStatus(status, context().config.retry_after, *server_context_));
}

}  // namespace lockstep::router
