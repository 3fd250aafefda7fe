#include "router/api/generate_call.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "router/api/grpc_status.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// Before anything is tokenized: about four bytes of text make a token.
uint64_t EstimatePromptTokens(const v1::GenerateRequest& request) {
  constexpr uint64_t kBytesPerToken = 4;
  if (request.has_token_ids()) return request.token_ids().ids_size();
  uint64_t bytes = request.text().size();
  for (const v1::ChatMessage& message : request.chat().messages())
    bytes += message.content().size();
  return bytes / kBytesPerToken + 1;
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerateCall::Start(
    ApiContext& context, grpc::CallbackServerContext* server_context,
    const v1::GenerateRequest* request) {
  const auto call = std::make_shared<GenerateCall>(context, server_context, request);
  call->self_ = call;
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> ticket =
      context.engine.Admit(EstimatePromptTokens(*request));
  if (ticket.ok()) {
    call->ticket_ = *std::move(ticket);
    call->Schedule();
  } else {
    server_context->AddTrailingMetadata(
        "retry-after-ms", absl::StrCat(absl::ToInt64Milliseconds(context.config.retry_after)));
    call->FinishCall(ticket.status());
  }
  return call.get();
}

GenerateCall::GenerateCall(ApiContext& context, grpc::CallbackServerContext* server_context,
                           const v1::GenerateRequest* request)
    : context_(context), server_context_(server_context), message_(request) {}

void GenerateCall::Abort() {
  aborted_.store(true);
  Schedule();
}

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) cancelled_.store(true);
  writing_.store(false);
  Schedule();
}

void GenerateCall::OnCancel() {
  cancelled_.store(true);
  Schedule();
}

void GenerateCall::OnDone() { self_.reset(); }

void GenerateCall::RunStrand() {
  if (finished_) return;
  if (cancelled_.load()) {
    CancelEngine(CancelCause::kClient);
    if (!writing_.load()) FinishCall(absl::CancelledError("the client cancelled the call"));
    return;
  }
  if (!prepared_.exchange(true)) {
    if (const absl::Status status = Prepare(); !status.ok()) return FinishCall(status);
  }
  if (aborted_.load()) CancelEngine(CancelCause::kAborted);
  if (writing_.load()) return;
  if (messages_.empty() && !builder_->end().has_value()) ConsumeOutput();
  if (messages_.empty()) {
    if (builder_->end().has_value()) FinishCall(*builder_->end());
    return;
  }
  current_ = std::move(messages_.front());
  messages_.pop_front();
  if (messages_.empty() && builder_->end().has_value()) {
    // The last message and the status share a packet.
    finished_ = true;
    RecordEnd(*builder_->end());
    StartWriteAndFinish(&current_, grpc::WriteOptions(), ToGrpcStatus(*builder_->end()));
    return;
  }
  writing_.store(true);
  StartWrite(&current_);
}

absl::Status GenerateCall::Prepare() {
  const ModelFacts facts = context_.Facts();
  const RequestLimits limits = context_.Limits();
  LOCKSTEP_RETURN_IF_ERROR(CheckRequest(*message_, limits, facts));
  const RequestKey key = context_.engine.NextKey();
  RequestContext request_context;
  request_context.key = key;
  request_context.made_up_id = context_.MakeRequestId(key);
  const std::string& id =
      message_->request_id().empty() ? request_context.made_up_id : message_->request_id();
  if (!context_.registry.Add(id, weak_from_this())) {
    return InvalidArgument("request_id: expected one that is not in use, got \"{}\"", id);
  }
  registered_id_ = id;
  request_context.now = context_.clock.Now();
  request_context.deadline = Deadline(request_context.now);
  request_context.drawn_seed = context_.DrawSeed();

  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, context_.encoder.Encode(*message_));
  LOCKSTEP_ASSIGN_OR_RETURN(
      Request request, BuildRequest(*message_, std::move(prompt), limits, facts, request_context));
  ticket_->SetPromptTokens(request.prompt_tokens.size());
  request_ = std::make_shared<const Request>(std::move(request));
  builder_.emplace(*context_.model.tokenizer, request_, TextOptions::Of(*message_));
  outbox_ = context_.engine.MakeOutbox([weak = weak_from_this()] {
    if (const std::shared_ptr<GenerateCall> call = weak.lock()) call->Schedule();
  });
  context_.engine.Submit({.request = request_, .outbox = outbox_, .ticket = ticket_});
  return absl::OkStatus();
}

absl::Time GenerateCall::Deadline(absl::Time now) const {
  return std::min(absl::FromChrono(server_context_->deadline()),
                  now + context_.config.default_timeout);
}

void GenerateCall::ConsumeOutput() {
  std::vector<uint32_t> stopped;
  builder_->Consume(outbox_->Take(), context_.clock.Now(), messages_, stopped);
  for (const uint32_t index : stopped) context_.engine.StopSequence(request_->key, index);
}

void GenerateCall::Schedule() {
  (prepared_.load() ? context_.text_pool : context_.encode_pool).Schedule(shared_from_this());
}

void GenerateCall::CancelEngine(CancelCause cause) {
  if (request_ == nullptr || engine_told_) return;
  engine_told_ = true;
  context_.engine.Cancel(request_->key, cause);
}

void GenerateCall::FinishCall(const absl::Status& status) {
  finished_ = true;
  RecordEnd(status);
  Finish(ToGrpcStatus(status));
}

void GenerateCall::RecordEnd(const absl::Status& status) {
  // The id is free again before the client can know that the call is over.
  if (!registered_id_.empty()) context_.registry.Remove(registered_id_);
  RouterMetrics::At(context_.metrics.requests_total, status.code()).Increment();
}

}  // namespace lockstep::router
