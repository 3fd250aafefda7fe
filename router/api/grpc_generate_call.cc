#include "router/api/grpc_generate_call.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "router/api/grpc_status.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

absl::StatusOr<std::shared_ptr<const Tenant>> IdentifyCaller(const Gatekeeper& gatekeeper,
                                                             const grpc::ServerContext& context) {
  const auto [first, last] = context.client_metadata().equal_range("authorization");
  // Of two nobody could say which one counts.
  const bool one = first != last && std::next(first) == last;
  return gatekeeper.Identify(one ? std::string_view(first->second.data(), first->second.size())
                                 : std::string_view());
}

void GenerateStream::Listen(ApiContext& context, v1::Generation::AsyncService& service,
                            std::shared_ptr<GrpcLoop> loop) {
  auto* const stream = new GenerateStream(context, service, std::move(loop));
  stream->loop_->AddUser();
  grpc::ServerCompletionQueue* const queue = stream->loop_->queue();
  stream->server_context_.AsyncNotifyWhenDone(stream->done_tag_.id());
  service.RequestGenerate(&stream->server_context_, &stream->request_, &stream->writer_, queue,
                          queue, stream->accepted_tag_.id());
}

GenerateStream::GenerateStream(ApiContext& context, v1::Generation::AsyncService& service,
                               std::shared_ptr<GrpcLoop> loop)
    : context_(context), service_(service), loop_(std::move(loop)) {}

void GenerateStream::OnAccepted(bool ok) {
  if (!ok) {  // the server shuts down; no other tag will come
    finished_ = true;
    done_ = true;
    return DeleteIfOver();
  }
  Listen(context_, service_, loop_);
  absl::StatusOr<std::shared_ptr<const Tenant>> tenant =
      IdentifyCaller(context_.gatekeeper, server_context_);
  // Before anything else is looked at.
  if (!tenant.ok()) {
    RouterMetrics::At(context_.metrics.requests_total, tenant.status().code()).Increment();
    return Finish(tenant.status());
  }
  const GenerateCall::Origin origin = {.request = &request_,
                                       .deadline = absl::FromChrono(server_context_.deadline()),
                                       .max_messages_per_write = 1,
                                       .tenant = *std::move(tenant),
                                       .home = loop_};
  call_ = std::make_shared<GrpcGenerateCall>(context_, origin, *this);
  if (call_->Admit()) call_->Start();
}

void GenerateStream::Write(const v1::GenerateResponse& message, bool more_follow) {
  grpc::WriteOptions options;
  // The first one must go: its write would not end before the headers are out.
  if (more_follow && written_) options.set_buffer_hint();
  written_ = true;
  writer_.Write(message, options, written_tag_.id());
}

void GenerateStream::WriteLast(const v1::GenerateResponse& message) {
  writer_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, finished_tag_.id());
}

void GenerateStream::Finish(const absl::Status& status) {
  writer_.Finish(FinalStatus(status, context_.config.retry_after, server_context_),
                 finished_tag_.id());
}

void GenerateStream::OnWritten(bool ok) { call_->OnWriteDone(ok); }

void GenerateStream::OnFinished(bool /*ok*/) {
  finished_ = true;
  DeleteIfOver();
}

void GenerateStream::OnDone(bool /*ok*/) {
  done_ = true;
  if (call_ != nullptr && server_context_.IsCancelled()) call_->OnClientGone();
  DeleteIfOver();
}

void GenerateStream::DeleteIfOver() {
  if (!finished_ || !done_) return;
  if (call_ != nullptr) call_->OnStreamOver();
  loop_->RemoveUser();
  delete this;
}

void GrpcGenerateCall::OnStreamOver() {
  MutexLock lock(mutex_);
  stream_over_ = true;
}

void GrpcGenerateCall::StartWrite(std::span<const v1::GenerateResponse> messages,
                                  bool more_follow) {
  stream_.Write(messages.front(), more_follow);
}

void GrpcGenerateCall::StartLastWrite(std::span<const v1::GenerateResponse> messages) {
  stream_.WriteLast(messages.front());
}

void GrpcGenerateCall::End(const absl::Status& status) { stream_.Finish(status); }

void GrpcGenerateCall::CutOff() {
  MutexLock lock(mutex_);
  if (!stream_over_) stream_.TryCancel();
}

}  // namespace lockstep::router
