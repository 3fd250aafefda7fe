#include "router/grpc/grpc_call.h"

#include <fmt/format.h>

#include <utility>

#include "common/runtime/release_memory.h"

namespace lockstep::router {
namespace {

// A call continues while at most this much waits for the connection. It then needs no wake-up.
constexpr size_t kMaxWaitingBytes = 16 << 10;

GrpcStatus TooManyBytes() {
  return {.code = absl::StatusCode::kResourceExhausted,
          .message = "too many bytes of other calls are in transit"};
}

}  // namespace

GrpcCall::GrpcCall(Transport transport)
    : signal_(std::move(transport.signal)),
      memory_(std::move(transport.memory)),
      max_message_bytes_(transport.max_message_bytes),
      reader_(max_message_bytes_, *memory_),
      held_(*memory_) {}

void GrpcCall::OnBody(std::string_view bytes) {
  while (!bytes.empty() && !over()) {
    const MessageReader::State state = reader_.Read(bytes);
    if (state == MessageReader::State::kMore) return;
    if (state != MessageReader::State::kMessage) return Refuse(state);
    OnMessage(reader_.Take());
  }
}

void GrpcCall::OnBodyEnd() {
  if (over()) return;
  if (!reader_.between_messages()) {
    return Finish({.code = absl::StatusCode::kInvalidArgument,
                   .message = "the call ends in the middle of a message"});
  }
  OnHalfClose();
}

void GrpcCall::Refuse(MessageReader::State state) {
  switch (state) {
    case MessageReader::State::kCompressed:
      return Finish({.code = absl::StatusCode::kUnimplemented,
                     .message = "messages must not be compressed",
                     .accepts_identity_only = true});
    case MessageReader::State::kTooLarge:
      return Finish({.code = absl::StatusCode::kResourceExhausted,
                     .message = fmt::format("Received message larger than max ({} vs. {})",
                                            reader_.announced_bytes(), max_message_bytes_)});
    default:
      return Finish(TooManyBytes());
  }
}

StreamHandler::Output GrpcCall::Take() {
  MutexLock lock(mutex_);
  num_taken_bytes_ += pending_.body.size();
  taken_awaited_ = taken_awaited_ || std::exchange(pending_awaited_, false);
  return std::exchange(pending_, Output());
}

void GrpcCall::OnWritten() {
  bool awaited = false;
  {
    MutexLock lock(mutex_);
    num_taken_bytes_ = 0;
    held_.Resize(num_call_bytes_ + pending_.body.size());
    awaited = std::exchange(taken_awaited_, false);
  }
  OnSent(awaited);
}

void GrpcCall::OnClosed() {
  bool finished = false;
  {
    MutexLock lock(mutex_);
    finished = std::exchange(finished_, true);
    pending_ = Output();
    held_.Resize(0);
  }
  OnOver(finished);
}

void GrpcCall::Charge(ByteBudget::Account* account) {
  reader_.ChargeTo(account);
  bool granted = false;
  {
    MutexLock lock(mutex_);
    held_.ChargeTo(account);
    granted = held_.Resize(held_.bytes() + kCallBytes);
    if (granted) num_call_bytes_ = kCallBytes;
  }
  if (!granted) Finish(TooManyBytes());
}

GrpcCall::Sent GrpcCall::Send(const google::protobuf::MessageLite& message) {
  const google::protobuf::MessageLite* const one = &message;
  return SendAll({&one, 1});
}

GrpcCall::Sent GrpcCall::SendAll(std::span<const google::protobuf::MessageLite* const> messages) {
  bool told = false;  // something waits already, so the connection knows and takes all
  Sent sent = Sent::kDone;
  {
    MutexLock lock(mutex_);
    if (finished_) return Sent::kGone;
    told = !pending_.empty();
    for (const google::protobuf::MessageLite* message : messages) Append(*message);
    if (!Hold()) {
      sent = Sent::kGone;
    } else if (pending_.body.size() > kMaxWaitingBytes) {
      pending_awaited_ = true;
      sent = Sent::kPending;
    }
  }
  if (!told) signal_->OnOutput();
  return sent;
}

void GrpcCall::SendLast(std::span<const google::protobuf::MessageLite* const> messages) {
  bool told = false;
  {
    MutexLock lock(mutex_);
    if (finished_) return;
    told = !pending_.empty();
    for (const google::protobuf::MessageLite* message : messages) Append(*message);
    if (Hold()) SetEnd({});
  }
  if (!told) signal_->OnOutput();
}

void GrpcCall::Finish(const GrpcStatus& status) {
  {
    MutexLock lock(mutex_);
    if (finished_) return;
    SetEnd(status);
  }
  signal_->OnOutput();
}

bool GrpcCall::over() const {
  MutexLock lock(mutex_);
  return finished_;
}

absl::StatusCode GrpcCall::end_code() const {
  MutexLock lock(mutex_);
  return end_code_;
}

size_t GrpcCall::num_waiting_bytes() const {
  MutexLock lock(mutex_);
  return pending_.body.size() + num_taken_bytes_;
}

void GrpcCall::Append(const google::protobuf::MessageLite& message) {
  if (!std::exchange(head_made_, true)) pending_.head = AnswerHead();
  std::string& body = pending_.body;
  const size_t num_bytes = message.ByteSizeLong();
  const size_t before = body.size();
  body.resize(before + kMessagePrefixBytes + num_bytes);
  WriteMessagePrefix(num_bytes, body.data() + before);
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(body.data() + before + kMessagePrefixBytes));
}

bool GrpcCall::Hold() {
  if (held_.Resize(num_call_bytes_ + pending_.body.size() + num_taken_bytes_)) return true;
  // Drops all pending messages, so that the client gets only whole ones that it can read.
  ReleaseMemory(pending_.body);
  SetEnd(TooManyBytes());
  return false;
}

void GrpcCall::SetEnd(const GrpcStatus& status) {
  finished_ = true;
  end_code_ = status.code;
  pending_.last = true;
  if (std::exchange(head_made_, true)) return AppendStatus(status, pending_.trailers);
  pending_.head = AnswerHead();
  AppendStatus(status, *pending_.head);
}

}  // namespace lockstep::router
