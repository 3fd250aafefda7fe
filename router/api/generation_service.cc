#include "router/api/generation_service.h"

#include <functional>
#include <memory>
#include <utility>

#include "common/status.h"
#include "router/api/field_checks.h"
#include "router/api/grpc_generate_call.h"
#include "router/api/grpc_status.h"
#include "router/api/text_requests.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr int kMaxAbortIds = 1024;

grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext* server_context,
                                    const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = server_context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

// A unary call whose work runs once on the encode pool.
class TextCall final : public grpc::ServerUnaryReactor, public StrandPool::Strand {
 public:
  // The object keeps itself alive until gRPC is done with it.
  static grpc::ServerUnaryReactor* Start(ApiContext& context,
                                         grpc::CallbackServerContext* server_context,
                                         std::function<absl::Status()> work) {
    const auto call = std::make_shared<TextCall>(std::move(work));
    call->self_ = call;
    absl::StatusOr<std::shared_ptr<TextTicket>> ticket = Admit(context, *server_context);
    if (ticket.ok()) {
      call->ticket_ = *std::move(ticket);
      context.encode_pool.Schedule(call);
    } else {
      call->Finish(FinalStatus(ticket.status(), context.config.retry_after, *server_context));
    }
    return call.get();
  }

  explicit TextCall(std::function<absl::Status()> work) : work_(std::move(work)) {}

  void RunStrand() override {
    const absl::Status status = work_();
    ticket_->EndPass();
    Finish(ToGrpcStatus(status));
  }
  void OnDone() override { self_.reset(); }

 private:
  static absl::StatusOr<std::shared_ptr<TextTicket>> Admit(
      ApiContext& context, const grpc::CallbackServerContext& server_context) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::shared_ptr<const Tenant> tenant,
                              IdentifyCaller(context.gatekeeper, server_context));
    return TextTicket::Take(context, tenant.get());
  }

  const std::function<absl::Status()> work_;
  std::shared_ptr<TextTicket> ticket_;
  std::shared_ptr<TextCall> self_;
};

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* server_context, const v1::GenerateRequest* request) {
  return GrpcGenerateCall::Start(context_, server_context, request);
}

grpc::ServerUnaryReactor* GenerationService::Abort(grpc::CallbackServerContext* server_context,
                                                   const v1::AbortRequest* request,
                                                   v1::AbortResponse* response) {
  const absl::StatusOr<std::shared_ptr<const Tenant>> tenant =
      IdentifyCaller(context_.gatekeeper, *server_context);
  if (!tenant.ok()) return FinishNow(server_context, tenant.status());
  if (const absl::Status status = CheckKnownFields("request", *request); !status.ok()) {
    return FinishNow(server_context, status);
  }
  if (request->request_ids_size() > kMaxAbortIds) {
    return FinishNow(server_context, InvalidArgument("request_ids: expected at most {} ids, got {}",
                                                     kMaxAbortIds, request->request_ids_size()));
  }
  uint32_t num_aborted = 0;
  for (const std::string& id : request->request_ids()) {
    const std::string scoped_id = ScopedRequestId(tenant->get(), id);
    if (const std::shared_ptr<OpenCall> call = context_.registry.Find(scoped_id)) {
      call->Abort();
      ++num_aborted;
    }
  }
  response->set_aborted(num_aborted);
  return FinishNow(server_context, absl::OkStatus());
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* server_context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  return TextCall::Start(context_, server_context, [this, request, response] {
    return router::Tokenize(context_, *request, *response);
  });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* server_context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  return TextCall::Start(context_, server_context, [this, request, response] {
    return router::Detokenize(context_, *request, *response);
  });
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* server_context,
                                                      const v1::GetModelRequest* request,
                                                      v1::Model* response) {
  absl::Status status = IdentifyCaller(context_.gatekeeper, *server_context).status();
  if (status.ok()) status = CheckModelRequest(context_, *request);
  if (status.ok()) *response = DescribeModel(context_);
  return FinishNow(server_context, status);
}

grpc::ServerUnaryReactor* GenerationService::ListModels(grpc::CallbackServerContext* server_context,
                                                        const v1::ListModelsRequest* request,
                                                        v1::ListModelsResponse* response) {
  absl::Status status = IdentifyCaller(context_.gatekeeper, *server_context).status();
  if (status.ok()) status = CheckKnownFields("request", *request);
  if (status.ok()) *response->add_models() = DescribeModel(context_);
  return FinishNow(server_context, status);
}

}  // namespace lockstep::router
