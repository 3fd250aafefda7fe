#pragma once

#include "router/grpc/grpc_services.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// lockstep.v1.Generation: its methods as calls over HTTP/2. What is short is done on the threads of
// the connections; prompts go to the encode pool, requests to the engine.
class GenerationService {
 public:
  static constexpr char kName[] = "lockstep.v1.Generation";

  // `context` outlives the object.
  explicit GenerationService(ApiContext& context) : context_(context) {}

  // The object outlives the calls.
  void AddTo(GrpcServices& services);

 private:
  ApiContext& context_;
};

// Bytes of the largest message that can pass validation: a prompt to be cut has as many ids as a
// text has bytes, and an id takes up to four on the wire.
size_t MaxRequestBytes(const RequestLimits& limits);

}  // namespace lockstep::router
