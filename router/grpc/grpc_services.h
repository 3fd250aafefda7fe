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

// What a method gets to know of a call before any message.
struct GrpcCallStart {
  const HeaderList& fields;
  uint64_t connection_id;
  ConnectionLimiter::AddressKey address;
  absl::Duration timeout;  // until the client's deadline; infinite: it has none
  GrpcCall::Transport transport;
  std::shared_ptr<StrandRunner> home;  // runs strands on the thread of the connection
};

// From the requests of HTTP/2 clients to the calls of methods. Methods are added before the first
// request; afterwards safe to use from any thread.
class GrpcServices {
 public:
  using Method = std::function<std::shared_ptr<GrpcCall>(GrpcCallStart start)>;

  explicit GrpcServices(size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  // `path` is "/package.Service/Method".
  void Add(std::string path, Method method) {
    methods_.emplace(std::move(path), std::move(method));
  }

  // Whether the request is a gRPC call at all.
  static bool IsCall(const StreamRequest& request);
  // Bytes of the call count in `memory`.
  std::shared_ptr<StreamHandler> Open(const StreamRequest& request,
                                      std::shared_ptr<OutputSignal> signal,
                                      std::shared_ptr<ByteBudget> memory) const;

 private:
  const size_t max_message_bytes_;
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace lockstep::router
