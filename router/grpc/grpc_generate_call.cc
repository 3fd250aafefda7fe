#include "router/grpc/grpc_generate_call.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "router/grpc/grpc_status.h"
#include "router/grpc/read_message.h"
#include "router/serving/calls/output_memory.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

namespace {

// A request with the share that counts its bytes while it exists.
struct CountedRequest {
  std::shared_ptr<ByteBudget> memory;
  ByteBudget::Share held;
  v1::GenerateRequest request;
};

// Most often one or two messages.
absl::InlinedVector<const google::protobuf::MessageLite*, 4> Pointers(
    std::span<const v1::GenerateResponse> messages) {
  absl::InlinedVector<const google::protobuf::MessageLite*, 4> pointers;
  pointers.reserve(messages.size());
  for (const v1::GenerateResponse& message : messages) pointers.push_back(&message);
  return pointers;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tenant>> IdentifyCaller(const Gatekeeper& gatekeeper,
                                                             const HeaderList& fields) {
  return gatekeeper.Identify(fields.FindOnly("authorization"));
}

std::shared_ptr<GenerateStream> GenerateStream::Open(ApiContext& context, GrpcCallStart start) {
  const HeaderList& fields = start.fields;
  auto stream = std::make_shared<GenerateStream>(context, std::move(start));
  stream->Identify(fields);
  return stream;
}

GenerateStream::GenerateStream(ApiContext& context, GrpcCallStart start)
    : GrpcCall(start.transport),
      context_(context),
      memory_(std::move(start.transport.memory)),
      deadline_(context.clock.Now() + start.timeout),
      connection_runner_(std::move(start.connection_runner)),
      door_(context) {}

// Call before anything else is read.
void GenerateStream::Identify(const HeaderList& fields) {
  const absl::Status status = door_.Identify(fields.FindOnly("authorization"));
  if (!status.ok()) return Finish(GrpcStatus::Of(status));
  BeginTrace(fields);
  ChargeTo(door_.tenant_name());
}

void GenerateStream::BeginTrace(const HeaderList& fields) {
  constexpr char kMethod[] = "lockstep.v1.Generation/Generate";
  if (context_.tracer == nullptr) return;
  door_.BeginTrace(ParseTraceContext(fields.FindOnly("traceparent"), fields.FindAll("tracestate")),
                   kMethod);
  if (door_.trace() != nullptr)
    door_.trace()->Set({{"rpc.system", "grpc"}, {"rpc.method", kMethod}});
}

void GenerateStream::OnMessage(Message message) {
  if (std::exchange(has_message_, true)) {
    return Finish({.code = absl::StatusCode::kInvalidArgument,
                   .message = "expected one message, got several"});
  }
  num_message_bytes_ = message.bytes.size();
  MutexLock lock(call_mutex_);
  message_ = std::move(message);
}

void GenerateStream::OnHalfClose() {
  if (!has_message_) {
    return Finish(
        {.code = absl::StatusCode::kInvalidArgument, .message = "expected one message, got none"});
  }
  if (num_message_bytes_ <= kMaxInlineMessageBytes) return RunStrand();
  context_.encode_pool.Schedule(shared_from_this());
}

void GenerateStream::RunStrand() {
  Message message;
  {
    MutexLock lock(call_mutex_);
    if (over_) return;
    message = std::exchange(message_, Message());
  }
  // Checked first, so that a tenant at its limit costs no parsing.
  if (const absl::Status status = door_.Admit(); !status.ok()) return FinishRefused(status);
  const auto counted = std::make_shared<CountedRequest>();
  counted->memory = memory_;
  if (const absl::Status status = ReadMessage(context_, message, counted->request); !status.ok()) {
    door_.Refuse(status);
    return FinishRefused(status);
  }
  counted->held = std::move(message.held);
  const auto call = std::make_shared<GrpcGenerateCall>(
      context_,
      GenerateCall::Origin{
          .request = std::shared_ptr<const v1::GenerateRequest>(counted, &counted->request),
          .deadline = deadline_,
          .tenant = door_.tenant(),
          .connection_runner = connection_runner_,
          .output_meter = CountIn(memory_, door_.tenant_name()),
          .trace = door_.trace()},
      weak_from_this());
  {
    MutexLock lock(call_mutex_);
    if (over_) return door_.Leave();
    call_ = call;
  }
  if (call->Admit(door_.TakePermit())) call->Start();
}

void GenerateStream::FinishRefused(const absl::Status& status) {
  Finish(FinalStatus(status, context_.config.retry_after));
}

void GenerateStream::Forget() {
  MutexLock lock(call_mutex_);
  call_.reset();
}

void GenerateStream::OnSent(bool awaited) {
  if (!awaited) return;
  if (const auto current = call()) current->OnWriteDone(true);
}

void GenerateStream::OnOver(bool finished) {
  std::shared_ptr<GrpcGenerateCall> last;
  Message unread;  // it may wait long for a thread
  {
    MutexLock lock(call_mutex_);
    over_ = true;
    last = std::move(call_);
    unread = std::exchange(message_, Message());
  }
  if (last != nullptr && !finished) last->OnWriteDone(false);
  // Without a GenerateCall the stream ends the span. A GenerateCall ends it itself.
  if (finished && door_.trace() != nullptr) door_.trace()->End(end_code(), context_.clock.Now());
}

void GrpcGenerateCall::StartWrite(std::vector<v1::GenerateResponse> messages) {
  const std::shared_ptr<GenerateStream> stream = stream_.lock();
  const GrpcCall::Sent sent =
      stream == nullptr ? GrpcCall::Sent::kGone : stream->SendAll(Pointers(messages));
  if (sent != GrpcCall::Sent::kPending) OnWriteDone(sent == GrpcCall::Sent::kDone);
}

absl::StatusCode GrpcGenerateCall::StartLastWrite(std::vector<v1::GenerateResponse> messages) {
  const std::shared_ptr<GenerateStream> stream = stream_.lock();
  if (stream == nullptr) return absl::StatusCode::kCancelled;
  stream->SendLast(Pointers(messages));
  stream->Forget();
  return stream->end_code();
}

void GrpcGenerateCall::End(const absl::Status& status) {
  const std::shared_ptr<GenerateStream> stream = stream_.lock();
  if (stream == nullptr) return;
  stream->Finish(FinalStatus(status, context().config.retry_after));
  stream->Forget();
}

}  // namespace lockstep::router
