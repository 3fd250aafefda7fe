#pragma once

#include <absl/status/status.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/cancel_flag.h"
#include "common/runtime/mutex.h"
#include "common/status.h"
#include "router/grpc/grpc_generate_call.h"
#include "router/grpc/grpc_status.h"
#include "router/grpc/read_message.h"
#include "router/serving/calls/text_requests.h"

namespace lockstep::router {

// The caller that waits for the response.
struct UnaryCaller {
  const Tenant* tenant;  // null: no tenant
  const CancelFlag& cancellation;
};

// How a method with one response works.
template <typename Request, typename Response>
struct UnaryMethod {
  absl::Status (*answer)(ApiContext& context, const UnaryCaller& caller, const Request& request,
                         Response& response);
  // Not null: the method takes long, so it needs a ticket and runs on the encode pool. Null: it
  // runs on the connection's thread.
  size_t (*num_work_bytes)(const Request& request);
  size_t max_message_bytes;

  bool is_long() const { return num_work_bytes != nullptr; }
};

// A call of such a method. The caller is identified before the request is read. A ticket is taken
// when the whole request is there, and given back before the response is sent. So clients that send
// or read slowly hold no place.
template <typename Request, typename Response>
class UnaryCall final : public GrpcCall,
                        public Strand,
                        public std::enable_shared_from_this<UnaryCall<Request, Response>> {
 public:
  using Method = UnaryMethod<Request, Response>;

  // `context` must outlive the object.
  static std::shared_ptr<UnaryCall> Open(ApiContext& context, const Method& method,
                                         GrpcCallStart start) {
    start.transport.max_message_bytes =
        std::min(start.transport.max_message_bytes, method.max_message_bytes);
    auto call = std::make_shared<UnaryCall>(context, method, std::move(start.transport));
    if (const absl::Status status = call->Identify(start.fields); !status.ok()) {
      call->Finish(FinalStatus(status, context.config.retry_after));
    }
    return call;
  }
  UnaryCall(ApiContext& context, const Method& method, GrpcCall::Transport transport)
      : GrpcCall(std::move(transport)),
        context_(context),
        method_(method),
        cancellation_(&context.closing) {}

  void RunStrand() override {
    std::optional<Work> work = TakeWork();
    if (!work.has_value()) return;
    if (work->request == nullptr) {
      if (!Read(*work)) return;
      // The call got its turn for the size of its bytes. The work may be larger, and then it waits
      // again.
      if (const size_t num_bytes = method_.num_work_bytes(*work->request);
          num_bytes > num_work_bytes_) {
        return AwaitTurn(*std::move(work), num_bytes);
      }
    }
    Answer(*std::move(work));
  }
  std::string_view owner() const override { return NameOf(tenant_.get()); }
  size_t num_work_bytes() const override { return num_work_bytes_; }

 private:
  struct Work {
    Message message;
    std::unique_ptr<Request> request;    // null: the message is not parsed yet
    std::shared_ptr<TextTicket> ticket;  // null: not needed
  };

  absl::Status Identify(const HeaderList& fields) {
    LOCKSTEP_ASSIGN_OR_RETURN(tenant_, IdentifyCaller(context_.gatekeeper, fields));
    this->ChargeTo(NameOf(tenant_.get()));
    if (!method_.is_long() || this->over()) return absl::OkStatus();
    return context_.gatekeeper.Check(tenant_.get(), context_.clock.Now());
  }

  void OnMessage(Message message) override {
    if (std::exchange(has_message_, true)) {
      return Finish({.code = absl::StatusCode::kInvalidArgument,
                     .message = "expected one message, got several"});
    }
    message_ = std::move(message);
  }
  void OnHalfClose() override {
    if (!has_message_) {
      return Finish({.code = absl::StatusCode::kInvalidArgument,
                     .message = "expected one message, got none"});
    }
    Work work{.message = std::exchange(message_, Message()), .request = nullptr, .ticket = nullptr};
    const size_t num_message_bytes = work.message.bytes.size();
    if (method_.is_long()) {
      absl::StatusOr<std::shared_ptr<TextTicket>> ticket =
          TextTicket::Take(context_, tenant_.get());
      if (!ticket.ok()) return Finish(FinalStatus(ticket.status(), context_.config.retry_after));
      work.ticket = *std::move(ticket);
      if (num_message_bytes > kMaxInlineMessageBytes) {
        return AwaitTurn(std::move(work), num_message_bytes);
      }
    }
    if (!Read(work)) return;
    if (!method_.is_long()) return Answer(std::move(work));
    const size_t num_bytes = method_.num_work_bytes(*work.request);
    AwaitTurn(std::move(work), num_bytes);
  }
  void OnOver(bool /*finished*/) override {
    cancellation_.Cancel();
    const Message unfinished = std::exchange(message_, Message());
    // It could otherwise wait long for a thread.
    const std::optional<Work> dropped = TakeWork();
  }

  // Nothing if there is no work or the client is gone.
  std::optional<Work> TakeWork() {
    MutexLock lock(work_mutex_);
    return std::exchange(work_, std::nullopt);
  }
  void AwaitTurn(Work work, size_t num_bytes) {
    num_work_bytes_ = num_bytes;
    {
      MutexLock lock(work_mutex_);
      // Once the call is over, OnOver has run or will run. So no work may be left behind here.
      if (this->over()) return;
      work_ = std::move(work);
    }
    context_.encode_pool.Schedule(this->shared_from_this());
  }

  // Returns false if the call is over.
  bool Read(Work& work) {
    work.request = std::make_unique<Request>();
    const absl::Status status = ReadMessage(context_, work.message, *work.request);
    if (status.ok()) return true;
    work.ticket.reset();
    Finish(FinalStatus(status, context_.config.retry_after));
    return false;
  }
  void Answer(Work work) {
    Response response;
    const absl::Status status =
        method_.answer(context_, {.tenant = tenant_.get(), .cancellation = cancellation_},
                       *work.request, response);
    // From here on the response is counted and the request is not needed. The tenant may call again
    // as soon as it has the response.
    work = Work();
    if (!status.ok()) return Finish(GrpcStatus::Of(status));
    const google::protobuf::MessageLite* const message = &response;
    SendLast({&message, 1});
  }

  ApiContext& context_;
  const Method method_;
  CancelFlag cancellation_;               // cancels the work when the call is over
  std::shared_ptr<const Tenant> tenant_;  // null: no tenant
  bool has_message_ = false;
  Message message_;  // until the client has sent everything
  size_t num_work_bytes_ = 0;
  Mutex work_mutex_;
  std::optional<Work> work_ ABSL_GUARDED_BY(work_mutex_);  // while it waits for its turn
};

}  // namespace lockstep::router
