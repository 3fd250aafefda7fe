#pragma once

#include "router/grpc/grpc_services.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// Makes the methods of lockstep.v1.Generation callable over HTTP/2. Short work is done on the
// threads of the connections. Prompts go to the encode pool, requests go to the engine.
class GenerationService {
 public:
  static constexpr char kName[] = "lockstep.v1.Generation";

  // `context` must outlive the object.
  explicit GenerationService(ApiContext& context) : context_(context) {}

  // The object must outlive the calls.
  void AddTo(GrpcServices& services);

 private:
  ApiContext& context_;
};

// Bytes of the largest message that can pass validation. A prompt that will be cut may have as many
// ids as a text may have bytes, and an id takes up to four bytes on the wire.
size_t MaxRequestBytes(const RequestLimits& limits);

}  // namespace lockstep::router
