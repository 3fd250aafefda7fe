#include "router/api/generation_service.h"

#include <functional>
#include <memory>
#include <utility>

#include "common/status.h"
#include "router/api/field_checks.h"
#include "router/api/generate_call.h"
#include "router/api/grpc_status.h"

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
    const auto call = std::make_shared<TextCall>(context, std::move(work));
    call->self_ = call;
    if (call->over_limit_) {
      call->Finish(
          FinalStatus(ResourceExhausted("{} calls of Tokenize and Detokenize are open already",
                                        context.config.max_open_text_calls),
                      context.config.retry_after, *server_context));
    } else {
      context.encode_pool.Schedule(call);
    }
    return call.get();
  }

  TextCall(ApiContext& context, std::function<absl::Status()> work)
      : context_(context),
        work_(std::move(work)),
        over_limit_(context_.open_text_calls.fetch_add(1) >= context_.config.max_open_text_calls) {}
  ~TextCall() override { context_.open_text_calls.fetch_sub(1); }

  void RunStrand() override { Finish(ToGrpcStatus(work_())); }
  void OnDone() override { self_.reset(); }

 private:
  ApiContext& context_;
  const std::function<absl::Status()> work_;
  const bool over_limit_;
  std::shared_ptr<TextCall> self_;
};

// All fields are known, and `model` is ours.
template <typename Request>
absl::Status CheckNamed(const ApiContext& context, const Request& request) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  if (request.model().empty() || request.model() == context.model.id) return absl::OkStatus();
  return NotFound("model: expected {} or nothing, got {}", Quote(context.model.id),
                  Quote(request.model()));
}

absl::Status TokenizeText(const ApiContext& context, const v1::TokenizeRequest& request,
                          v1::TokenizeResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNamed(context, request));
  absl::StatusOr<std::vector<TokenId>> ids =
      absl::InvalidArgumentError("input: expected one of text, chat, got none");
  if (request.has_text()) {
    if (request.text().size() > context.config.limits.max_prompt_bytes) {
      return InvalidArgument("text: expected at most {} bytes, got {}",
                             context.config.limits.max_prompt_bytes, request.text().size());
    }
    ids = context.encoder.EncodeText(
        request.text(), !request.has_add_special_tokens() || request.add_special_tokens());
  } else if (request.has_chat()) {
    if (request.has_add_special_tokens()) {
      return absl::InvalidArgumentError(
          "add_special_tokens: expected with text only, as a chat's template sets its own");
    }
    LOCKSTEP_RETURN_IF_ERROR(
        CheckChat(request.chat(), "chat", context.config.limits, context.Facts()));
    ids = context.encoder.EncodeChat(request.chat());
  }
  if (!ids.ok()) return ids.status();
  response.mutable_token_ids()->Add(ids->begin(), ids->end());
  return absl::OkStatus();
}

absl::Status DetokenizeIds(const ApiContext& context, const v1::DetokenizeRequest& request,
                           v1::DetokenizeResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNamed(context, request));
  // Nothing that the model reads or writes is longer.
  LOCKSTEP_RETURN_IF_ERROR(CheckSize("token_ids", request.token_ids_size(),
                                     context.model.config.max_context_tokens, "ids"));
  const std::vector<TokenId> ids(request.token_ids().begin(), request.token_ids().end());
  absl::StatusOr<std::string> text =
      context.model.tokenizer->Decode(ids, request.skip_special_tokens());
  if (!text.ok()) return Annotate(text.status(), "token_ids");
  response.set_text(*std::move(text));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* server_context, const v1::GenerateRequest* request) {
  return GenerateCall::Start(context_, server_context, request);
}

grpc::ServerUnaryReactor* GenerationService::Abort(grpc::CallbackServerContext* server_context,
                                                   const v1::AbortRequest* request,
                                                   v1::AbortResponse* response) {
  if (const absl::Status status = CheckKnownFields("request", *request); !status.ok()) {
    return FinishNow(server_context, status);
  }
  if (request->request_ids_size() > kMaxAbortIds) {
    return FinishNow(server_context, InvalidArgument("request_ids: expected at most {} ids, got {}",
                                                     kMaxAbortIds, request->request_ids_size()));
  }
  uint32_t num_aborted = 0;
  for (const std::string& id : request->request_ids()) {
    if (const std::shared_ptr<OpenCall> call = context_.registry.Find(id)) {
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
    return TokenizeText(context_, *request, *response);
  });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* server_context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  return TextCall::Start(context_, server_context, [this, request, response] {
    return DetokenizeIds(context_, *request, *response);
  });
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* server_context,
                                                      const v1::GetModelRequest* request,
                                                      v1::Model* response) {
  const absl::Status status = CheckNamed(context_, *request);
  if (status.ok()) DescribeModel(response);
  return FinishNow(server_context, status);
}

grpc::ServerUnaryReactor* GenerationService::ListModels(grpc::CallbackServerContext* server_context,
                                                        const v1::ListModelsRequest* request,
                                                        v1::ListModelsResponse* response) {
  const absl::Status status = CheckKnownFields("request", *request);
  if (status.ok()) DescribeModel(response->add_models());
  return FinishNow(server_context, status);
}

void GenerationService::DescribeModel(v1::Model* model) const {
  const ModelFacts facts = context_.Facts();
  const ReplicaStatus status = context_.engine.replica_status();
  model->set_id(facts.id);
  model->set_max_context_tokens(facts.max_context_tokens);
  model->set_vocab_size(facts.vocab_size);
  model->mutable_eos_token_ids()->Add(facts.eos_token_ids.begin(), facts.eos_token_ids.end());
  model->set_has_chat_template(facts.has_chat_template);
  const SamplingParams defaults = DefaultSampling(facts.defaults);
  v1::SamplingParams* const sampling = model->mutable_default_sampling();
  sampling->set_temperature(defaults.temperature);
  sampling->set_top_p(defaults.top_p);
  sampling->set_top_k(defaults.top_k);
  sampling->set_min_p(defaults.min_p);
  sampling->set_presence_penalty(defaults.presence_penalty);
  sampling->set_frequency_penalty(defaults.frequency_penalty);
  sampling->set_repetition_penalty(defaults.repetition_penalty);
  model->set_weights_dtype(status.description.weights_dtype());
  model->set_ready(context_.engine.ready());
  model->set_numerics_id(status.description.numerics_id());
}

}  // namespace lockstep::router
