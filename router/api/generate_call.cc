#include "router/api/generate_call.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/status.h"

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

GenerateCall::GenerateCall(ApiContext& context, const Origin& origin)
    : context_(context), origin_(origin) {}

bool GenerateCall::Admit() {
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> ticket =
      context_.engine.Admit(EstimatePromptTokens(*origin_.request));
  if (!ticket.ok()) {
    FinishCall(ticket.status());
    return false;
  }
  ticket_ = *std::move(ticket);
  return true;
}

void GenerateCall::Start() {
  context_.registry.Open(shared_from_this());
  Schedule();
}

void GenerateCall::Abort() {
  aborted_.store(true);
  Schedule();
}

void GenerateCall::EndIfStalledSince(absl::Time limit) {
  const int64_t began = write_began_unix_ns_.load();
  if (began == kNotWriting || absl::FromUnixNanos(began) > limit) return;
  stalled_write_unix_ns_.store(began);
  Schedule();
}

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) cancelled_.store(true);
  write_began_unix_ns_.store(kNotWriting);
  Schedule();
}

void GenerateCall::OnClientGone() {
  cancelled_.store(true);
  Schedule();
}

void GenerateCall::RunStrand() {
  if (finished_) return;
  if (cancelled_.load()) {
    CancelEngine(CancelCause::kClient);
    if (!writing()) FinishCall(absl::CancelledError("the client cancelled the call"));
    return;
  }
  // Loaded once: the transport may end the write at any moment.
  const int64_t write_began = write_began_unix_ns_.load();
  if (write_began != kNotWriting && write_began == stalled_write_unix_ns_.load()) {
    spdlog::warn("request {} ended: its client took nothing for {}", request_->id,
                 absl::FormatDuration(context_.config.stalled_client_timeout));
    // The call is not finished, so the transport still has it: the write fails, and the rest
    // follows.
    cancelled_.store(true);
    CancelEngine(CancelCause::kClient);
    return CutOff();
  }
  if (!prepared_.exchange(true)) {
    if (const absl::Status status = Prepare(); !status.ok()) return FinishCall(status);
  }
  if (aborted_.load()) CancelEngine(CancelCause::kAborted);
  if (writing()) return;
  if (messages_.empty() && !builder_->end().has_value()) ConsumeOutput();
  if (messages_.empty()) {
    if (builder_->end().has_value()) FinishCall(*builder_->end());
    return;
  }
  WriteMessages();
}

void GenerateCall::WriteMessages() {
  const size_t count = std::min(messages_.size(), origin_.max_messages_per_write);
  const auto last = messages_.begin() + static_cast<std::ptrdiff_t>(count);
  current_.assign(std::make_move_iterator(messages_.begin()), std::make_move_iterator(last));
  messages_.erase(messages_.begin(), last);
  // The id is free again before the client can know that the call is over.
  if (messages_.empty() && builder_->end().has_value()) RecordEnd(*builder_->end());
  write_began_unix_ns_.store(absl::ToUnixNanos(context_.clock.Now()));
  // Never together with the status: a call may only be cancelled while it is not finished.
  StartWrite(current_);
}

absl::Status GenerateCall::Prepare() {
  const v1::GenerateRequest& message = *origin_.request;
  const ModelFacts facts = context_.Facts();
  const RequestLimits limits = context_.Limits();
  LOCKSTEP_RETURN_IF_ERROR(CheckRequest(message, limits, facts));
  const RequestKey key = context_.engine.NextKey();
  RequestContext request_context;
  request_context.key = key;
  request_context.made_up_id = context_.MakeRequestId(key);
  const std::string& id =
      message.request_id().empty() ? request_context.made_up_id : message.request_id();
  if (!context_.registry.Add(id, weak_from_this())) {
    return InvalidArgument("request_id: expected one that is not in use, got \"{}\"", id);
  }
  registered_id_ = id;
  request_context.now = context_.clock.Now();
  request_context.deadline =
      std::min(origin_.deadline, request_context.now + context_.config.default_timeout);
  request_context.drawn_seed = context_.DrawSeed();

  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, context_.encoder.Encode(message));
  LOCKSTEP_ASSIGN_OR_RETURN(
      Request request, BuildRequest(message, std::move(prompt), limits, facts, request_context));
  ticket_->SetPromptTokens(request.prompt_tokens.size());
  request_ = std::make_shared<const Request>(std::move(request));
  builder_.emplace(*context_.model.tokenizer, request_, TextOptions::Of(message));
  outbox_ = context_.engine.MakeOutbox([weak = weak_from_this()] {
    if (const std::shared_ptr<GenerateCall> call = weak.lock()) call->Schedule();
  });
  context_.engine.Submit({.request = request_, .outbox = outbox_, .ticket = ticket_});
  return absl::OkStatus();
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
  End(status);
}

void GenerateCall::RecordEnd(const absl::Status& status) {
  if (end_recorded_) return;
  end_recorded_ = true;
  if (!registered_id_.empty()) context_.registry.Remove(registered_id_);
  RouterMetrics::At(context_.metrics.requests_total, status.code()).Increment();
}

}  // namespace lockstep::router
