#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "router/api/grpc_generate_call.h"
#include "router/api/grpc_status.h"
#include "router/api/text_requests.h"

namespace lockstep::router {

// What a method with one answer does.
template <typename Request, typename Response>
struct UnaryMethod {
  // Takes long, so it needs a ticket and runs on the encode pool; otherwise on the connection's
  // thread.
  bool is_long;
  absl::Status (*answer)(ApiContext& context, const Tenant* tenant, const Request& request,
                         Response& response);
};

// A call of such a method. Who calls is asked before the request is read, and so is a ticket.
template <typename Request, typename Response>
class UnaryCall final : public GrpcCall,
                        public Strand,
                        public std::enable_shared_from_this<UnaryCall<Request, Response>> {
 public:
  using Method = UnaryMethod<Request, Response>;

  // `context` outlives the object.
  static std::shared_ptr<UnaryCall> Open(ApiContext& context, const Method& method,
                                         GrpcCallStart start) {
    auto call = std::make_shared<UnaryCall>(context, method, std::move(start.transport));
    if (const absl::Status status = call->Admit(start.fields); !status.ok()) {
      call->Finish(FinalStatus(status, context.config.retry_after));
    }
    return call;
  }
  UnaryCall(ApiContext& context, const Method& method, GrpcCall::Transport transport)
      : GrpcCall(std::move(transport)), context_(context), method_(method) {}

  void RunStrand() override {
    Response response;
    const absl::Status status = Answer(response);
    // What the answer takes is counted from here on; a client that does not read it keeps no place.
    ticket_.reset();
    if (!status.ok()) return Finish(GrpcStatus::Of(status));
    const google::protobuf::MessageLite* const message = &response;
    SendLast({&message, 1});
  }
  std::string_view owner() const override { return NameOf(tenant_.get()); }
  size_t num_work_bytes() const override { return num_message_bytes_; }

 private:
  absl::Status Admit(const HeaderList& fields) {
    LOCKSTEP_ASSIGN_OR_RETURN(tenant_, IdentifyCaller(context_.gatekeeper, fields));
    this->ChargeTo(NameOf(tenant_.get()));
    if (!method_.is_long || this->over()) return absl::OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(ticket_, TextTicket::Take(context_, tenant_.get()));
    return absl::OkStatus();
  }

  void OnMessage(Message message) override {
    if (std::exchange(has_message_, true)) {
      return Finish({.code = absl::StatusCode::kInvalidArgument,
                     .message = "expected one message, got several"});
    }
    num_message_bytes_ = message.bytes.size();
    message_ = std::move(message);
  }
  void OnHalfClose() override {
    if (!has_message_) {
      return Finish({.code = absl::StatusCode::kInvalidArgument,
                     .message = "expected one message, got none"});
    }
    if (!method_.is_long) return RunStrand();
    context_.encode_pool.Schedule(this->shared_from_this());
  }

  absl::Status Answer(Response& response) {
    const Message message = std::exchange(message_, Message());
    Request request;
    if (!request.ParseFromString(message.bytes)) {
      return absl::InvalidArgumentError("the message cannot be parsed");
    }
    return method_.answer(context_, tenant_.get(), request, response);
  }

  ApiContext& context_;
  const Method method_;
  std::shared_ptr<const Tenant> tenant_;  // null: nobody in particular
  std::shared_ptr<TextTicket> ticket_;    // null: not needed
  bool has_message_ = false;
  size_t num_message_bytes_ = 0;
  Message message_;
};

}  // namespace lockstep::router
