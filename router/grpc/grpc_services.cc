#include "router/grpc/grpc_services.h"

#include <string_view>

#include "router/grpc/grpc_wire.h"

namespace lockstep::router {

bool GrpcServices::IsCall(const StreamRequest& request) {
  return IsGrpcContentType(request.fields.Find("content-type"));
}

std::shared_ptr<StreamHandler> GrpcServices::Open(const StreamRequest& request,
                                                  std::shared_ptr<OutputSignal> signal,
                                                  std::shared_ptr<ByteBudget> memory) const {
  GrpcCall::Transport transport = {.signal = std::move(signal),
                                   .memory = std::move(memory),
                                   .max_message_bytes = max_message_bytes_};
  const auto refuse = [&transport](absl::StatusCode code, std::string message) {
    return std::make_shared<RefusedCall>(std::move(transport),
                                         GrpcStatus{.code = code, .message = std::move(message)});
  };
  const HeaderList& fields = request.fields;
  if (fields.Find(":method") != "POST") {
    return refuse(absl::StatusCode::kUnimplemented, "a call is a POST");
  }
  const std::string_view content_type = fields.Find("content-type");
  if (content_type.find('+') != std::string_view::npos &&
      content_type.find("+proto") == std::string_view::npos) {
    return refuse(absl::StatusCode::kUnimplemented, "messages are protocol buffers");
  }
  const auto method = methods_.find(fields.Find(":path"));
  if (method == methods_.end()) {
    return refuse(absl::StatusCode::kUnimplemented, "there is no such method");
  }
  absl::Duration timeout = absl::InfiniteDuration();
  if (const std::string_view text = fields.Find("grpc-timeout"); !text.empty()) {
    const std::optional<absl::Duration> parsed = ParseGrpcTimeout(text);
    if (!parsed.has_value()) {
      return refuse(absl::StatusCode::kInvalidArgument,
                    "grpc-timeout: expected up to eight digits and a unit");
    }
    timeout = *parsed;
  }
  return method->second({.fields = fields,
                         .connection_id = request.connection_id,
                         .address = request.address,
                         .timeout = timeout,
                         .transport = std::move(transport),
                         .connection_runner = request.connection_runner});
}

}  // namespace lockstep::router
