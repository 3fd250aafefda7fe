#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "router/front/connection/stream_handler.h"
#include "router/grpc/grpc_call.h"

namespace lockstep::router {

// What a method learns about a call before any message.
struct GrpcCallStart {
  const HeaderList& fields;
  uint64_t connection_id;
  ConnectionLimiter::AddressKey address;
  absl::Duration timeout;  // until the client's deadline; infinite: no deadline
  GrpcCall::Transport transport;
  std::shared_ptr<StrandRunner> connection_runner;  // runs strands on the connection's thread
};

// Opens calls of methods from the requests of HTTP/2 clients. All methods must be added before the
// first request. After that it is safe to use from any thread.
class GrpcServices {
 public:
  using Method = std::function<std::shared_ptr<GrpcCall>(GrpcCallStart start)>;

  explicit GrpcServices(size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  // `path` is "/package.Service/Method".
  void Add(std::string path, Method method) {
    methods_.emplace(std::move(path), std::move(method));
  }

  // True if the request is a gRPC call.
  static bool IsCall(const StreamRequest& request);
  // `memory` counts the bytes of the call.
  std::shared_ptr<StreamHandler> Open(const StreamRequest& request,
                                      std::shared_ptr<OutputSignal> signal,
                                      std::shared_ptr<ByteBudget> memory) const;

 private:
  const size_t max_message_bytes_;
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace lockstep::router
