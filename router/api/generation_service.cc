#include "router/api/generation_service.h"

#include <memory>
#include <utility>

#include "common/grpc/completion_tag.h"
#include "common/status.h"
#include "router/api/field_checks.h"
#include "router/api/grpc_generate_call.h"
#include "router/api/grpc_status.h"
#include "router/api/text_requests.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

using Service = v1::Generation::AsyncService;

constexpr int kMaxAbortIds = 1024;

// What a method with one answer does.
template <typename Request, typename Response>
struct UnaryMethod {
  // Of the service.
  void (Service::*listen)(grpc::ServerContext*, Request*,
                          grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                          grpc::ServerCompletionQueue*, void*);
  // Takes long, so it needs a ticket and runs on the encode pool; otherwise on the loop's thread.
  bool is_long;
  absl::Status (*answer)(ApiContext& context, const Tenant* tenant, const Request& request,
                         Response& response);
};

// A call of such a method, from listening for it to its end. Whichever comes first listens for the
// next one.
template <typename Request, typename Response>
class UnaryCall final : public Strand,
                        public std::enable_shared_from_this<UnaryCall<Request, Response>> {
 public:
  using Method = UnaryMethod<Request, Response>;

  // The object keeps itself alive until gRPC is done with it.
  static void Listen(ApiContext& context, Service& service, GrpcLoop& loop, const Method& method) {
    const auto call = std::make_shared<UnaryCall>(context, service, loop, method);
    call->self_ = call;
    loop.AddUser();
    (service.*method.listen)(&call->server_context_, &call->request_, &call->writer_, loop.queue(),
                             loop.queue(), call->accepted_tag_.id());
  }

  UnaryCall(ApiContext& context, Service& service, GrpcLoop& loop, const Method& method)
      : context_(context), service_(service), loop_(loop), method_(method) {}

  void RunStrand() override {
    const absl::Status status = Answer();
    ticket_->EndPass();
    Finish(ToGrpcStatus(status));
  }

 private:
  void OnAccepted(bool ok) {
    if (!ok) return Leave();  // the server shuts down
    Listen(context_, service_, loop_, method_);
    absl::Status status = Admit();
    if (!status.ok()) {
      return Finish(FinalStatus(status, context_.config.retry_after, server_context_));
    }
    if (method_.is_long) return context_.encode_pool.Schedule(this->shared_from_this());
    Finish(ToGrpcStatus(Answer()));
  }

  absl::Status Admit() {
    LOCKSTEP_ASSIGN_OR_RETURN(tenant_, IdentifyCaller(context_.gatekeeper, server_context_));
    if (!method_.is_long) return absl::OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(ticket_, TextTicket::Take(context_, tenant_.get()));
    return absl::OkStatus();
  }

  absl::Status Answer() { return method_.answer(context_, tenant_.get(), request_, response_); }

  void Finish(const grpc::Status& status) {
    if (status.ok()) return writer_.Finish(response_, status, finished_tag_.id());
    writer_.FinishWithError(status, finished_tag_.id());
  }
  void OnFinished(bool /*ok*/) { Leave(); }
  void Leave() {
    loop_.RemoveUser();
    self_.reset();
  }

  ApiContext& context_;
  Service& service_;
  GrpcLoop& loop_;
  const Method method_;
  grpc::ServerContext server_context_;
  Request request_;
  Response response_;
  grpc::ServerAsyncResponseWriter<Response> writer_{&server_context_};
  MethodTag<UnaryCall> accepted_tag_{this, &UnaryCall::OnAccepted};
  MethodTag<UnaryCall> finished_tag_{this, &UnaryCall::OnFinished};
  std::shared_ptr<const Tenant> tenant_;  // null: nobody in particular
  std::shared_ptr<TextTicket> ticket_;    // null: not needed
  std::shared_ptr<UnaryCall> self_;
};

absl::Status Abort(ApiContext& context, const Tenant* tenant, const v1::AbortRequest& request,
                   v1::AbortResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  if (request.request_ids_size() > kMaxAbortIds) {
    return InvalidArgument("request_ids: expected at most {} ids, got {}", kMaxAbortIds,
                           request.request_ids_size());
  }
  uint32_t num_aborted = 0;
  for (const std::string& id : request.request_ids()) {
    if (const auto call = context.registry.Find(ScopedRequestId(tenant, id))) {
      call->Abort();
      ++num_aborted;
    }
  }
  response.set_aborted(num_aborted);
  return absl::OkStatus();
}

absl::Status GetModel(ApiContext& context, const Tenant* /*tenant*/,
                      const v1::GetModelRequest& request, v1::Model& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckModelRequest(context, request));
  response = DescribeModel(context);
  return absl::OkStatus();
}

absl::Status ListModels(ApiContext& context, const Tenant* /*tenant*/,
                        const v1::ListModelsRequest& request, v1::ListModelsResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  *response.add_models() = DescribeModel(context);
  return absl::OkStatus();
}

}  // namespace

void GenerationService::Listen(const std::shared_ptr<GrpcLoop>& loop) {
  GenerateStream::Listen(context_, service_, loop);
  const auto listen =
      [&]<typename Request, typename Response>(const UnaryMethod<Request, Response>& method) {
        UnaryCall<Request, Response>::Listen(context_, service_, *loop, method);
      };
  listen(UnaryMethod<v1::AbortRequest, v1::AbortResponse>{
      .listen = &Service::RequestAbort, .is_long = false, .answer = &Abort});
  listen(UnaryMethod<v1::GetModelRequest, v1::Model>{
      .listen = &Service::RequestGetModel, .is_long = false, .answer = &GetModel});
  listen(UnaryMethod<v1::ListModelsRequest, v1::ListModelsResponse>{
      .listen = &Service::RequestListModels, .is_long = false, .answer = &ListModels});
  listen(UnaryMethod<v1::TokenizeRequest, v1::TokenizeResponse>{
      .listen = &Service::RequestTokenize,
      .is_long = true,
      .answer = [](ApiContext& context, const Tenant*, const v1::TokenizeRequest& request,
                   v1::TokenizeResponse& response) {
        return Tokenize(context, request, response);
      }});
  listen(UnaryMethod<v1::DetokenizeRequest, v1::DetokenizeResponse>{
      .listen = &Service::RequestDetokenize,
      .is_long = true,
      .answer = [](ApiContext& context, const Tenant*, const v1::DetokenizeRequest& request,
                   v1::DetokenizeResponse& response) {
        return Detokenize(context, request, response);
      }});
}

}  // namespace lockstep::router
