#pragma once

#include <grpcpp/grpcpp.h>

#include "lockstep/v1/generation.grpc.pb.h"
#include "router/api/api_context.h"

namespace lockstep::router {

// lockstep.v1.Generation on gRPC's callback API. Its methods run on gRPC's few threads and only
// hand work over: text to the text pool, requests to the engine.
class GenerationService final : public lockstep::v1::Generation::CallbackService {
 public:
  // `context` must outlive the object.
  explicit GenerationService(ApiContext& context) : context_(context) {}

  grpc::ServerWriteReactor<lockstep::v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* server_context,
      const lockstep::v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* server_context,
                                  const lockstep::v1::AbortRequest* request,
                                  lockstep::v1::AbortResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* server_context,
                                     const lockstep::v1::TokenizeRequest* request,
                                     lockstep::v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* server_context,
                                       const lockstep::v1::DetokenizeRequest* request,
                                       lockstep::v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* server_context,
                                     const lockstep::v1::GetModelRequest* request,
                                     lockstep::v1::Model* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* server_context,
                                       const lockstep::v1::ListModelsRequest* request,
                                       lockstep::v1::ListModelsResponse* response) override;

 private:
  ApiContext& context_;
};

}  // namespace lockstep::router
