#include "router/workers/link/worker_channel.h"

#include <string>

#include "common/grpc/credentials.h"
#include "common/status.h"
#include "router/workers/worker_text.h"

namespace lockstep::router {
namespace {

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeWorkerChannel(const WorkerClientConfig& config) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(config.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(config.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(config.min_backoff));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(config.min_backoff));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(config.min_backoff));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(config.max_message_bytes);
  arguments.SetMaxSendMessageSize(config.max_message_bytes);
  // Worker traffic is trusted by address. It must not go through proxies that the environment
  // names.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto credentials = MakeChannelCredentials(config.tls, arguments);
  return grpc::CreateCustomChannel(config.address, credentials, arguments);
}

absl::Status CallFailed(std::string_view call, const grpc::Status& status) {
  if (status.ok()) return Unavailable("{} ended", call);
  const std::string code =
      absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
  // gRPC's text before the reason would leave no room for the reason.
  constexpr std::string_view kPreamble = "failed to connect to all addresses; last error: ";
  std::string text = status.error_message();
  if (text.starts_with(kPreamble)) text.erase(0, kPreamble.size());
  return Unavailable("{} failed: {}: {}", call, code.empty() ? "code out of range" : code,
                     QuoteWorker(text));
}

bool IsRefusal(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
         status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
}

}  // namespace lockstep::router
