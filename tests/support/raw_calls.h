#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

// Calls with hand-made bytes, for services whose messages are not generated here and for bytes that
// are no message at all.
struct RawReply {
  grpc::Status status;
  std::string first_message;  // empty when none came
};

// Opens a stream (a unary method takes it as well), sends `message`, closes the sending side, reads
// one message and ends the call. `method` is "/package.Service/Method".
using RawMetadata = std::vector<std::pair<std::string, std::string>>;
RawReply CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::string& message, const RawMetadata& metadata = {});

// grpc.health.v1.Health/Check: "SERVING", "NOT_SERVING", or the name of an error.
std::string CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service);

}  // namespace lockstep::testing
