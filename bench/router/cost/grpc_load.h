#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/router/cost/load.h"
#include "lockstep/v1/generation.grpc.pb.h"

namespace lockstep::bench {

// Clients of the gRPC API. Streams are spread over a few connections.
class GrpcLoad {
 public:
  GrpcLoad(const std::string& address, uint32_t num_connections);
  // Cuts off what still runs.
  ~GrpcLoad();

  // One more stream. The time to its first token counts from here.
  void Open(const StreamShape& shape);
  LoadRecord& record() { return record_; }

 private:
  class Stream;

  LoadRecord record_;
  std::vector<std::unique_ptr<lockstep::v1::Generation::Stub>> stubs_;  // one per connection
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace lockstep::bench
