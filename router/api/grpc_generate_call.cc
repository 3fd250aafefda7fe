#include "router/api/grpc_generate_call.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "router/api/grpc_status.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

namespace {

// Parsing a request of this size takes well below a millisecond, so the connection's thread does
// it; a refusal then does not wait behind others' prompts.
constexpr size_t kMaxInlineBytes = 32 << 10;

std::vector<const google::protobuf::MessageLite*> Pointers(
    std::span<const v1::GenerateResponse> messages) {
  std::vector<const google::protobuf::MessageLite*> pointers;
  pointers.reserve(messages.size());
  for (const v1::GenerateResponse& message : messages) pointers.push_back(&message);
  return pointers;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Tenant>> IdentifyCaller(const Gatekeeper& gatekeeper,
                                                             const HeaderList& fields) {
  return gatekeeper.Identify(fields.FindOnly("authorization"));
}

std::shared_ptr<GenerateStream> GenerateStream::Open(ApiContext& context, GrpcCallStart start,
                                                     std::shared_ptr<StrandRunner> home) {
  const HeaderList& fields = start.fields;
  auto stream = std::make_shared<GenerateStream>(context, std::move(start), std::move(home));
  stream->Identify(fields);
  return stream;
}

GenerateStream::GenerateStream(ApiContext& context, GrpcCallStart start,
                               std::shared_ptr<StrandRunner> home)
    : GrpcCall(start.transport),
      context_(context),
      memory_(std::move(start.transport.memory)),
      deadline_(context.clock.Now() + start.timeout),
      home_(std::move(home)) {}

// Before anything else is looked at.
void GenerateStream::Identify(const HeaderList& fields) {
  absl::StatusOr<std::shared_ptr<const Tenant>> tenant =
      IdentifyCaller(context_.gatekeeper, fields);
  if (tenant.ok()) {
    tenant_ = *std::move(tenant);
    return ChargeTo(NameOf(tenant_.get()));
  }
  RouterMetrics::At(context_.metrics.requests_total, tenant.status().code()).Increment();
  Finish(GrpcStatus::Of(tenant.status()));
}

void GenerateStream::OnMessage(Message message) {
  if (std::exchange(has_message_, true)) {
    return Finish({.code = absl::StatusCode::kInvalidArgument,
                   .message = "expected one message, got several"});
  }
  num_message_bytes_ = message.bytes.size();
  message_ = std::move(message);
}

void GenerateStream::OnHalfClose() {
  if (!has_message_) {
    return Finish(
        {.code = absl::StatusCode::kInvalidArgument, .message = "expected one message, got none"});
  }
  if (message_.bytes.size() <= kMaxInlineBytes) return RunStrand();
  context_.encode_pool.Schedule(shared_from_this());
}

void GenerateStream::RunStrand() {
  Message message = std::exchange(message_, Message());
  // A tenant at its limit costs no parsing.
  absl::StatusOr<std::unique_ptr<Gatekeeper::Pass>> pass =
      context_.gatekeeper.Admit(tenant_.get(), context_.clock.Now());
  if (!pass.ok()) {
    RouterMetrics::At(context_.metrics.requests_total, pass.status().code()).Increment();
    return Finish(FinalStatus(pass.status(), context_.config.retry_after));
  }
  const auto request = std::make_shared<v1::GenerateRequest>();
  if (!request->ParseFromString(message.bytes)) {
    RouterMetrics::At(context_.metrics.requests_total, absl::StatusCode::kInvalidArgument)
        .Increment();
    pass->reset();
    return Finish(
        {.code = absl::StatusCode::kInvalidArgument, .message = "the message cannot be parsed"});
  }
  const GenerateCall::Origin origin = {.request = request.get(),
                                       .deadline = deadline_,
                                       .max_messages_per_write = SIZE_MAX,
                                       .tenant = tenant_,
                                       .home = home_};
  const auto call = std::make_shared<GrpcGenerateCall>(
      context_, origin,
      GrpcGenerateCall::Held{
          .memory = memory_, .share = std::move(message.held), .request = request},
      weak_from_this());
  {
    MutexLock lock(call_mutex_);
    if (over_) return;
    call_ = call;
  }
  if (call->Admit(*std::move(pass))) call->Start();
}

void GenerateStream::OnSent(bool awaited) {
  if (!awaited) return;
  if (const auto current = call()) current->OnWriteDone(true);
}

void GenerateStream::OnOver(bool finished) {
  std::shared_ptr<GrpcGenerateCall> last;
  {
    MutexLock lock(call_mutex_);
    over_ = true;
    last = std::move(call_);
  }
  if (last != nullptr && !finished) last->OnWriteDone(false);
}

void GrpcGenerateCall::StartWrite(std::span<const v1::GenerateResponse> messages,
                                  bool /*more_follow*/) {
  const std::shared_ptr<GenerateStream> stream = stream_.lock();
  const GrpcCall::Sent sent =
      stream == nullptr ? GrpcCall::Sent::kGone : stream->SendAll(Pointers(messages));
  if (sent != GrpcCall::Sent::kPending) OnWriteDone(sent == GrpcCall::Sent::kDone);
}

void GrpcGenerateCall::StartLastWrite(std::span<const v1::GenerateResponse> messages) {
  if (const auto stream = stream_.lock()) stream->SendLast(Pointers(messages));
}

void GrpcGenerateCall::End(const absl::Status& status) {
  if (const auto stream = stream_.lock()) {
    stream->Finish(FinalStatus(status, context().config.retry_after));
  }
}

}  // namespace lockstep::router
