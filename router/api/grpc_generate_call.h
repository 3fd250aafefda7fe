#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "lockstep/v1/generation.grpc.pb.h"
#include "router/api/generate_call.h"

namespace lockstep::router {

// A GenerateCall over gRPC, whose callbacks run on gRPC's threads.
class GrpcGenerateCall final : public grpc::ServerWriteReactor<lockstep::v1::GenerateResponse>,
                               public GenerateCall {
 public:
  // The object keeps itself alive until gRPC is done with it. `context` outlives the call.
  static grpc::ServerWriteReactor<lockstep::v1::GenerateResponse>* Start(
      ApiContext& context, grpc::CallbackServerContext* server_context,
      const lockstep::v1::GenerateRequest* request);

  GrpcGenerateCall(ApiContext& context, grpc::CallbackServerContext* server_context,
                   const lockstep::v1::GenerateRequest* request);

  void OnWriteDone(bool ok) override { GenerateCall::OnWriteDone(ok); }
  void OnCancel() override { OnClientGone(); }
  void OnDone() override { self_.reset(); }

 private:
  void StartWrite(std::span<const lockstep::v1::GenerateResponse> messages) override;
  void End(const absl::Status& status) override;
  void CutOff() override { server_context_->TryCancel(); }

  grpc::CallbackServerContext* const server_context_;
  std::shared_ptr<GrpcGenerateCall> self_;  // until OnDone
};

}  // namespace lockstep::router
