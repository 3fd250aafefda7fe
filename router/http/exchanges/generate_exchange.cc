#include "router/http/exchanges/generate_exchange.h"

#include <algorithm>
#include <utility>

#include "common/instant.h"
#include "common/runtime/heap.h"
#include "common/runtime/release_memory.h"
#include "common/status.h"
#include "router/http/exchanges/http_generate_call.h"
#include "router/http/json/unknown_fields.h"
#include "router/serving/calls/call_trace.h"
#include "router/serving/calls/output_memory.h"
#include "router/serving/calls/system_fingerprint.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

namespace {

// Reading a body of this size takes well below a millisecond. So the connection's thread does it,
// and a refusal does not wait behind other requests' prompts.
constexpr size_t kMaxInlineBytes = 32 << 10;
// After parsing a body into more memory than this, it is worth the time to return that memory to
// the system.
constexpr size_t kMaxKeptBytes = 16 << 20;
// Calls continue while at most this many bytes wait for the connection, and then need no wake-up.
constexpr size_t kMaxWaitingBytes = 16 << 10;
// Streams count their memory in pieces of this size, so that most events change no counter.
constexpr size_t kStreamPieceBytes = 4 << 10;

}  // namespace

std::shared_ptr<GenerateExchange> GenerateExchange::Start(ApiContext& context,
                                                          const Dialect& dialect,
                                                          std::shared_ptr<const Tenant> tenant,
                                                          HttpRequest request,
                                                          std::shared_ptr<OutputSignal> signal) {
  const auto exchange = std::make_shared<GenerateExchange>(context, dialect, std::move(tenant),
                                                           std::move(request), std::move(signal));
  if (!exchange->Admit()) return exchange;
  if (exchange->num_body_bytes_ <= kMaxInlineBytes) {
    exchange->RunStrand();
  } else {
    context.encode_pool.Schedule(exchange);
  }
  return exchange;
}

GenerateExchange::GenerateExchange(ApiContext& context, const Dialect& dialect,
                                   std::shared_ptr<const Tenant> tenant, HttpRequest request,
                                   std::shared_ptr<OutputSignal> signal)
    : context_(context),
      dialect_(dialect),
      signal_(std::move(signal)),
      id_(context.MakeRequestId(context.engine.NextKey())),
      door_(context, std::move(tenant)),
      http_(std::move(request)),
      num_body_bytes_(http_.body.size()),
      num_work_bytes_(num_body_bytes_),
      reading_(http_.answer.ShareOf(door_.tenant_name())),
      held_(http_.answer.ShareOf(door_.tenant_name())) {
  BeginTrace();
}

GenerateExchange::~GenerateExchange() = default;

void GenerateExchange::BeginTrace() {
  const std::string_view operation = dialect_.operation();
  door_.BeginTrace(http_.trace, SpanName(operation, context_.model.id));
  const std::shared_ptr<RequestTrace>& trace = door_.trace();
  if (trace == nullptr) return;
  trace->Set({{"gen_ai.operation.name", std::string(operation)}, {"http.route", http_.path}});
  if (!http_.request_id.empty()) {
    trace->Set({{"http.request.header.x-request-id", std::vector<std::string>{http_.request_id}}});
  }
}

void GenerateExchange::EndTrace(absl::StatusCode code) {
  if (door_.trace() != nullptr) door_.trace()->End(code, context_.clock.Now());
}

bool GenerateExchange::Admit() {
  const absl::Status status = door_.Admit();
  if (!status.ok()) Fail(status);
  return status.ok();
}

absl::StatusOr<std::unique_ptr<ApiRequest>> GenerateExchange::ReadBody(const std::string& body) {
  size_t num_read_bytes = 0;
  const BodyMeter meter = [this, &num_read_bytes](size_t num_bytes) {
    num_read_bytes = num_bytes;
    return reading_.Resize(num_bytes);
  };
  const BodyReading reading{.meter = meter,
                            .strict_fields = context_.config.strict_fields,
                            .limits = context_.config.limits,
                            .max_context_tokens = context_.Facts().max_context_tokens,
                            .session_id = http_.session_id};
  absl::StatusOr<std::unique_ptr<ApiRequest>> request = dialect_.ReadBody(body, reading);
  // Parsing used many small blocks, and all of them are free now.
  if (num_read_bytes > kMaxKeptBytes) ReturnFreedMemory();
  // The connection counts the body until the answer is sent. Several prompts share parts of it.
  const size_t num_bytes = request.ok() ? (*request)->NumHeldBytes() : 0;
  const bool granted = reading_.Resize(num_bytes - std::min(num_bytes, num_body_bytes_));
  if (granted || !request.ok()) return request;
  return ResourceExhausted("too many bytes of other requests are in transit");
}

bool GenerateExchange::Decode(std::unique_ptr<BodyDecoder>& decoder, std::string& body) {
  if (decoder == nullptr) decoder = BodyDecoder::Of(http_, std::move(body), owner());
  const absl::StatusOr<bool> whole = decoder->Turn();
  if (!whole.ok()) {
    decoder.reset();
    Refuse(whole.status());
    return false;
  }
  if (*whole) {
    body = decoder->TakeBody();
    return true;
  }
  {
    MutexLock lock(mutex_);
    if (over_) {
      door_.Leave();
      return false;
    }
    decoder_ = std::move(decoder);
    num_work_bytes_ = BodyDecoder::kTurnBytes;
  }
  context_.encode_pool.Schedule(shared_from_this());
  return false;
}

void GenerateExchange::RunStrand() {
  std::string body;
  std::unique_ptr<BodyDecoder> decoder;
  {
    MutexLock lock(mutex_);
    if (over_) return;
    begun_ = true;
    body.swap(http_.body);
    decoder.swap(decoder_);
  }
  if (IsCompressed(http_) && !Decode(decoder, body)) return;
  absl::StatusOr<std::unique_ptr<ApiRequest>> request = ReadBody(body);
  ReleaseMemory(body);
  decoder.reset();
  if (!request.ok()) return Refuse(request.status());
  if ((*request)->request_id.empty()) (*request)->SetRequestId(id_);
  request_ = *std::move(request);
  StartCalls();
}

void GenerateExchange::Refuse(const absl::Status& status) {
  door_.Refuse(status);
  Fail(status);
}

// A batch that can never be admitted as a whole gets no hint to retry.
absl::Status GenerateExchange::CheckBatch(
    const std::vector<std::shared_ptr<HttpGenerateCall>>& calls) const {
  if (calls.size() < 2) return absl::OkStatus();
  const Tenant* const tenant = door_.tenant().get();
  if (tenant != nullptr && tenant->max_open_requests > 0 &&
      calls.size() > tenant->max_open_requests) {
    return InvalidArgument("prompt: {} prompts, tenant \"{}\" may have {} requests open",
                           calls.size(), tenant->name, tenant->max_open_requests);
  }
  uint64_t num_tokens = 0;
  for (const auto& call : calls) num_tokens += call->estimated_prompt_tokens();
  return context_.engine.admission().CheckBatch(calls.size(), num_tokens, owner());
}

void GenerateExchange::StartCalls() {
  std::vector<std::shared_ptr<HttpGenerateCall>> calls;
  calls.reserve(request_->prompts.size());
  for (uint32_t prompt = 0; prompt < request_->prompts.size(); ++prompt) {
    calls.push_back(std::make_shared<HttpGenerateCall>(
        context_, weak_from_this(), prompt,
        GenerateCall::Origin{.request = std::shared_ptr<const v1::GenerateRequest>(
                                 request_, &request_->prompts[prompt]),
                             .deadline = Instant::InfiniteFuture(),
                             .tenant = door_.tenant(),
                             .connection_runner = http_.connection_runner,
                             .output_meter = CountIn(http_.answer.memory, door_.tenant_name()),
                             .trace = door_.trace(),
                             .follows_in_batch = prompt > 0}));
  }
  if (door_.trace() != nullptr) door_.trace()->SetNumCalls(calls.size());
  if (const absl::Status status = CheckBatch(calls); !status.ok()) return Refuse(status);
  // All or none: the first refused call ends the exchange.
  for (const auto& call : calls) {
    if (!call->Admit(door_.TakePermit())) return;
  }
  {
    MutexLock lock(mutex_);
    if (over_) return;
    calls_ = calls;
  }
  for (const auto& call : calls) call->Start();
}

std::unique_ptr<AnswerWriter> GenerateExchange::MakeWriter() const {
  return dialect_.MakeWriter(
      {.model = context_.model.id,
       .system_fingerprint = SystemFingerprint(context_),
       .created_unix_seconds = absl::ToUnixSeconds(context_.clock.TimeOfDay()),
       .tokenizer = context_.model.tokenizer.get()},
      *request_);
}

HeaderList GenerateExchange::AnswerHead() const {
  HttpHead head;
  if (request_->stream) {
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers.emplace_back("Cache-Control", "no-cache");
    // Tells nginx to pass events on at once.
    head.headers.emplace_back("X-Accel-Buffering", "no");
  }
  AddOwnHeaders(head);
  return FieldsOf(head);
}

void GenerateExchange::AddOwnHeaders(HttpHead& head) const {
  head.headers.emplace_back("X-Request-Id", ShownId());
  const std::string_view own_header = dialect_.request_id_header();
  if (!own_header.empty()) head.headers.emplace_back(own_header, ShownId());
  if (request_ != nullptr && !request_->ignored_fields.empty()) {
    head.headers.emplace_back(kIgnoredFieldsHeader, request_->ignored_fields);
  }
}

Exchange::Output GenerateExchange::Take() {
  MutexLock lock(mutex_);
  if (pending_.head.has_value()) head_taken_ = true;
  writing_prompts_.insert(writing_prompts_.end(), pending_prompts_.begin(), pending_prompts_.end());
  pending_prompts_.clear();
  num_writing_bytes_ = pending_.body.size();
  return std::exchange(pending_, Output());
}

void GenerateExchange::OnWritten() {
  std::vector<std::shared_ptr<HttpGenerateCall>> written;
  {
    MutexLock lock(mutex_);
    num_writing_bytes_ = 0;
    held_.ResizeAnyway(NumAnswerBytes());
    for (const uint32_t prompt : std::exchange(writing_prompts_, {})) {
      written.push_back(calls_[prompt]);
    }
  }
  for (const auto& call : written) call->OnWriteDone(true);
}

GenerateExchange::Delivery GenerateExchange::AddMessages(
    uint32_t prompt, std::span<const v1::GenerateResponse> messages) {
  Delivery delivery = Delivery::kDone;
  absl::Status excess;
  bool told = false;  // earlier output waits, so the connection will take this too
  {
    MutexLock lock(mutex_);
    if (over_) return Delivery::kGone;
    told = !pending_.empty();
    // Not earlier, because the writer names the worker that answers.
    if (writer_ == nullptr) writer_ = MakeWriter();
    writer_->Add(prompt, messages, pending_.body);
    excess = Hold();
    if (excess.ok() && !request_->stream) return delivery;
    if (excess.ok() && pending_.body.size() > kMaxWaitingBytes) {
      delivery = Delivery::kPending;
      pending_prompts_.push_back(prompt);
    }
    if (!head_taken_ && !pending_.head.has_value()) pending_.head = AnswerHead();
  }
  if (!excess.ok()) {
    Fail(excess);
    return Delivery::kGone;
  }
  if (!told) signal_->OnOutput();
  return delivery;
}

void GenerateExchange::OnCallEnd(uint32_t prompt, const absl::Status& status) {
  if (!status.ok())
    return Fail(request_->lists_prompts ? dialect_.OfListedPrompt(status, prompt) : status);
  bool told = false;
  {
    MutexLock lock(mutex_);
    if (over_ || ++num_ended_ < calls_.size()) return;
    over_ = true;
    told = !pending_.empty();
    if (writer_ == nullptr) writer_ = MakeWriter();
    writer_->Finish(pending_.body);
    writer_.reset();
    pending_.last = true;
    const absl::Status excess = Hold();
    if (!excess.ok() && !request_->stream) {
      EndTrace(excess.code());
      SetError(excess);
    } else {
      // The end of a stream is small, and the client waits only for it.
      held_.ResizeAnyway(NumAnswerBytes());
      if (!head_taken_ && !pending_.head.has_value()) pending_.head = AnswerHead();
    }
  }
  if (!told) signal_->OnOutput();
}

void GenerateExchange::Fail(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (over_) return;
    over_ = true;
    EndTrace(status.code());
    pending_.last = true;
    if (head_taken_) {
      writer_->Fail(status, pending_.body);
      held_.ResizeAnyway(NumAnswerBytes());
    } else {
      SetError(status);
    }
  }
  CancelCalls();
  signal_->OnOutput();
}

void GenerateExchange::SetError(const absl::Status& status) {
  ReleaseMemory(pending_.body);
  HttpHead head = dialect_.WriteError(
      status, {.retry_after = context_.config.retry_after, .request_id = ShownId()}, pending_.body);
  AddOwnHeaders(head);
  pending_.head = FieldsOf(head);
  writer_.reset();
  held_.ResizeAnyway(NumAnswerBytes());
}

size_t GenerateExchange::NumAnswerBytes() const {
  const size_t num_bytes = (writer_ == nullptr ? 0 : writer_->num_held_bytes()) +
                           pending_.body.size() + num_writing_bytes_;
  if (request_ == nullptr || !request_->stream) return num_bytes;
  return (num_bytes / kStreamPieceBytes + 1) * kStreamPieceBytes;
}

absl::Status GenerateExchange::Hold() {
  const AnswerMemory& limits = http_.answer;
  const size_t num_bytes = NumAnswerBytes();
  if (!request_->stream && num_bytes > limits.max_bytes) {
    return InvalidArgument("stream: expected true for an answer of more than {} bytes",
                           limits.max_bytes);
  }
  if (held_.Resize(num_bytes)) return absl::OkStatus();
  return ResourceExhausted("too many bytes of other answers are in transit");
}

void GenerateExchange::OnClosed() {
  {
    MutexLock lock(mutex_);
    over_ = true;
    if (!begun_ || decoder_ != nullptr) {
      decoder_.reset();
      // The exchange may wait long for a thread, and the body is not counted any more.
      ReleaseMemory(http_.body);
      door_.Leave();
    }
  }
  CancelCalls();
}

void GenerateExchange::CancelCalls() {
  std::vector<std::shared_ptr<HttpGenerateCall>> calls;
  {
    MutexLock lock(mutex_);
    calls = calls_;
  }
  for (const auto& call : calls) call->OnWriteDone(false);
}

}  // namespace lockstep::router
