#include "router/serving/calls/generate_call.h"

#include <algorithm>
#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "router/serving/calls/call_trace.h"
#include "router/serving/calls/forced_calls.h"
#include "router/serving/validation/bad_words.h"
#include "router/serving/validation/build_request.h"
#include "router/serving/validation/constraint_field.h"
#include "router/serving/validation/tool_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// Checking and copying this many token ids takes less time than waking another thread.
constexpr int kMaxInlineTokens = 4096;

bool IsShortWork(const v1::GenerateRequest& request) {
  return request.has_token_ids() && request.token_ids().ids_size() <= kMaxInlineTokens &&
         request.sampling().bad_words().empty() && ConstraintPath(request.sampling()).empty();
}

// About four bytes of text make a token.
constexpr size_t kBytesPerToken = 4;

// A constraint that is not known is compiled, which takes longer than its text looks.
constexpr size_t kConstraintWorkBytes = 16 << 10;
constexpr size_t kWorkPerConstraintByte = 8;

size_t NumConstraintWorkBytes(const v1::GenerateRequest& request) {
  const v1::SamplingParams& sampling = request.sampling();
  const bool forces_call = ForcesCall(request.chat());
  if (ConstraintPath(sampling).empty() && !forces_call) return 0;
  const size_t num_bytes =
      forces_call ? request.chat().tools_json().size() : NumConstraintBytes(sampling);
  return kConstraintWorkBytes + kWorkPerConstraintByte * num_bytes;
}

size_t NumPromptBytes(const v1::GenerateRequest& request) {
  if (request.has_token_ids()) return kBytesPerToken * request.token_ids().ids_size();
  size_t num_bytes = request.text().size() + request.chat().tools_json().size();
  for (const v1::ChatMessage& message : request.chat().messages()) {
    num_bytes +=
        message.content().size() + message.reasoning().size() + message.tool_calls_json().size();
  }
  return num_bytes;
}

}  // namespace

GenerateCall::GenerateCall(ApiContext& context, Origin origin)
    : context_(context),
      origin_(std::move(origin)),
      num_work_bytes_((origin_.request->has_chat()
                           ? PromptEncoder::NumWorkBytes(origin_.request->chat())
                           : NumPromptBytes(*origin_.request)) +
                      NumConstraintWorkBytes(*origin_.request)),
      encoding_(&context.closing) {}

uint64_t GenerateCall::estimated_prompt_tokens() const {
  const v1::GenerateRequest& request = *origin_.request;
  if (request.has_token_ids()) return request.token_ids().ids_size();
  return NumPromptBytes(request) / kBytesPerToken + 1;
}

bool GenerateCall::Admit(std::unique_ptr<Gatekeeper::Permit> permit) {
  permit_ = std::move(permit);
  if (permit_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Gatekeeper::Permit>> asked =
        context_.gatekeeper.Admit(origin_.tenant.get(), context_.clock.Now());
    if (!asked.ok()) {
      FinishCall(asked.status());
      return false;
    }
    permit_ = *std::move(asked);
  }
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> ticket =
      context_.engine.Admit(estimated_prompt_tokens(), owner());
  if (!ticket.ok()) {
    FinishCall(ticket.status());
    return false;
  }
  ticket_ = *std::move(ticket);
  return true;
}

void GenerateCall::Start() {
  const bool here = IsShortWork(*origin_.request);
  if (here) RunStrand();
  const bool wanted = start_.Open();
  if (stop_.load() != Stop::kNone) ticket_->StopWaiting();
  if (wanted || !here) Schedule();
}

void GenerateCall::Abort() {
  RequestStop(Stop::kAborted);
  Schedule();
}

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) RequestStop(Stop::kClientGone);
  if (writes_.Open() || !ok) Schedule();
}

void GenerateCall::RequestStop(Stop stop) {
  for (Stop known = stop_.load(); known < stop;) {
    if (stop_.compare_exchange_weak(known, stop)) break;
  }
  if (stop == Stop::kClientGone) encoding_.Cancel();
  // Start reads `stop_` after it has opened this gate.
  if (start_.is_open()) ticket_->StopWaiting();
}

void GenerateCall::RunStrand() {
  if (Leave()) return;
  if (stage_.load() == Stage::kReceived) {
    stage_.store(Stage::kRunning);
    const absl::Status status = context_.WhyNotEncoded(Prepare());
    origin_.request.reset();
    if (!status.ok()) return FinishCall(status);
  }
  if (stop_.load() == Stop::kAborted) CancelEngine(CancelCause::kAborted);
  // Consume at least once in each run. An earlier run may have been scheduled for output but could
  // not write. Later output schedules the strand again.
  bool consumed = false;
  while (stop_.load() != Stop::kClientGone && writes_.PassOrWish()) {
    if (messages_.empty() && !builder_->end().has_value()) {
      ConsumeOutput();
      consumed = true;
    }
    if (messages_.empty()) {
      if (builder_->end().has_value()) FinishCall(*builder_->end());
      return;
    }
    WriteMessages();
    if (stage_.load() == Stage::kFinished) return;
    if (consumed && !builder_->end().has_value()) return;
  }
}

bool GenerateCall::Leave() {
  if (stage_.load() == Stage::kFinished) return true;
  if (stop_.load() != Stop::kClientGone) return false;
  CancelEngine(CancelCause::kClient);
  if (writes_.PassOrWish()) FinishCall(absl::CancelledError("the client cancelled the call"));
  return true;
}

void GenerateCall::WriteMessages() {
  // Free the id before the client can know that the call is over.
  if (builder_->end().has_value()) RecordEnd(*builder_->end());
  writes_.Close();
  std::vector<v1::GenerateResponse> messages = std::exchange(messages_, {});
  if (!ended_well()) return StartWrite(std::move(messages));
  stage_.store(Stage::kFinished);
  EndTrace(StartLastWrite(std::move(messages)));
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
  std::string scoped_id = ScopedRequestId(origin_.tenant.get(), id);
  if (!context_.registry.Add(scoped_id, weak_from_this())) {
    return InvalidArgument("request_id: expected one that is not in use, got \"{}\"", id);
  }
  registered_id_ = std::move(scoped_id);
  request_context.now = context_.clock.Now();
  request_context.deadline =
      std::min(origin_.deadline, request_context.now + context_.config.default_timeout);
  request_context.drawn_seed = context_.DrawSeed();

  LOCKSTEP_ASSIGN_OR_RETURN(
      request_context.forbidden_tokens,
      BadWordTokens(*context_.model.tokenizer, message.sampling().bad_words()));
  LOCKSTEP_ASSIGN_OR_RETURN(request_context.constraint, CheckedConstraint(message.sampling()));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<TokenId> prompt,
                            context_.encoder.Encode(message, &encoding_));
  TextOptions text_options = TextOptions::Of(message);
  LOCKSTEP_ASSIGN_OR_RETURN(text_options.reading, ReadingOf(message, context_.model, prompt));
  if (!request_context.constraint) {
    LOCKSTEP_ASSIGN_OR_RETURN(request_context.constraint,
                              CheckedCalls(message.chat(), text_options.reading.get()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      Request request, BuildRequest(message, std::move(prompt), limits, facts, request_context));
  if (OffersTools(message.chat())) context_.metrics.tool_requests_total->Increment();
  Attribute(origin_.tenant.get(), request);
  request.follows_in_batch = origin_.follows_in_batch;
  if (permit_ != nullptr) permit_->ChargePrompt(request.prompt_tokens.size());
  ticket_->SetPromptTokens(request.prompt_tokens.size());
  request_ = std::make_shared<const Request>(std::move(request));
  shown_ = context_.board.Enter(id, owner(), static_cast<uint32_t>(request_->prompt_tokens.size()),
                                request_context.now);
  if (origin_.trace != nullptr) {
    TraceRequest(message, *request_, context_.model.id, *origin_.trace);
  }
  builder_.emplace(*context_.model.tokenizer, request_, text_options);
  outbox_ = context_.engine.MakeOutbox(
      [weak = weak_from_this()] {
        if (const std::shared_ptr<GenerateCall> call = weak.lock()) call->Schedule();
      },
      std::move(origin_.output_meter));
  if (origin_.trace != nullptr) {
    origin_.trace->OnQueued(request_->prompt_tokens.size(), context_.clock.Now());
  }
  context_.engine.fleet().Submit(
      {.request = request_, .outbox = outbox_, .ticket = ticket_, .trace = origin_.trace});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RequestConstraint>> GenerateCall::CheckedConstraint(
    const v1::SamplingParams& sampling) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<Constraint> constraint, ReadConstraint(sampling));
  if (!constraint) return std::optional<RequestConstraint>();
  ConstraintChecker& checker = *context_.constraints;
  LOCKSTEP_RETURN_IF_ERROR(checker.Check(*constraint, ConstraintPath(sampling), &encoding_));
  return RequestConstraint{.constraint = *constraint,
                           .engine = ConstraintEngineHash(checker.version())};
}

absl::StatusOr<std::optional<RequestConstraint>> GenerateCall::CheckedCalls(
    const v1::ChatPrompt& chat, const OutputReading* reading) {
  if (reading == nullptr || !reading->forced) return std::optional<RequestConstraint>();
  LOCKSTEP_ASSIGN_OR_RETURN(Constraint constraint,
                            CheckForcedCalls(chat, *reading, *context_.model.tokenizer,
                                             *context_.constraints, &encoding_));
  return RequestConstraint{.constraint = std::move(constraint),
                           .engine = ConstraintEngineHash(context_.constraints->version())};
}

void GenerateCall::ConsumeOutput() {
  std::vector<uint32_t> stopped;
  RequestOutput output = outbox_->Take();
  if (permit_ != nullptr) {
    for (const SampleOutput& sample : output.samples) permit_->ChargeOutput(sample.tokens.size());
  }
  const Instant now = context_.clock.Now();
  uint32_t num_tokens = 0;
  for (const SampleOutput& sample : output.samples) {
    num_tokens += static_cast<uint32_t>(sample.tokens.size());
  }
  shown_->AddOutput(num_tokens, now);
  builder_->Consume(std::move(output), now, messages_, stopped);
  if (origin_.trace != nullptr) TraceOutput(num_tokens, messages_, *origin_.trace);
  for (const uint32_t index : stopped)
    context_.engine.fleet().Stop({.request = request_->key, .sample_index = index});
}

void GenerateCall::Schedule() {
  if (!start_.PassOrWish()) return;
  (stage_.load() == Stage::kReceived ? context_.encode_pool : *origin_.connection_runner)
      .Schedule(shared_from_this());
}

void GenerateCall::CancelEngine(CancelCause cause) {
  if (request_ == nullptr || engine_told_) return;
  engine_told_ = true;
  context_.engine.fleet().Cancel({.request = request_->key, .cause = cause});
}

void GenerateCall::FinishCall(const absl::Status& status) {
  origin_.request.reset();
  RecordEnd(status);
  EndTrace(status.code());
  stage_.store(Stage::kFinished);
  End(status);
}

void GenerateCall::RecordEnd(const absl::Status& status) {
  if (stage_.load() >= Stage::kEnding) return;
  stage_.store(Stage::kEnding);
  if (!registered_id_.empty()) context_.registry.Remove(registered_id_);
  if (shown_ != nullptr) context_.board.Leave(shown_, status.ok(), context_.clock.Now());
  if (!status.ok()) EndTrace(status.code());  // otherwise the last messages may still be refused
  if (builder_.has_value()) context_.CountToolCalls(builder_->tool_calls());
  // The tenant may begin its next call as soon as it can know that this one is over.
  permit_.reset();
  context_.CountEnd(status.code());
}

void GenerateCall::EndTrace(absl::StatusCode code) {
  const std::shared_ptr<RequestTrace> trace = std::move(origin_.trace);
  if (trace != nullptr) trace->EndCall(code, context_.clock.Now());
}

}  // namespace lockstep::router
