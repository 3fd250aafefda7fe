#pragma once

#include <memory>
#include <vector>

#include "lockstep/v1/generation.grpc.pb.h"
#include "router/api/api_context.h"
#include "router/grpc/grpc_loop.h"

namespace lockstep::router {

// lockstep.v1.Generation on completion queues. The loops' threads do what is short themselves and
// hand over the rest: prompts to the encode pool, requests to the engine.
class GenerationService {
 public:
  // `context` must outlive the object.
  explicit GenerationService(ApiContext& context) : context_(context) {}

  grpc::Service& grpc_service() { return service_; }
  // Takes calls on this loop from now on, until the server shuts down. Once the server is up.
  void Listen(const std::shared_ptr<GrpcLoop>& loop);

 private:
  ApiContext& context_;
  lockstep::v1::Generation::AsyncService service_;
};

}  // namespace lockstep::router
