#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <span>

#include "common/mutex.h"
#include "lockstep/v1/generation.grpc.pb.h"
#include "router/api/generate_call.h"

namespace lockstep::router {

// The tenant whose key the call's metadata shows ("authorization: Bearer KEY", once).
absl::StatusOr<std::shared_ptr<const Tenant>> IdentifyCaller(
    const Gatekeeper& gatekeeper, const grpc::CallbackServerContext& server_context);

// A GenerateCall over gRPC, whose callbacks run on gRPC's threads.
class GrpcGenerateCall final : public grpc::ServerWriteReactor<lockstep::v1::GenerateResponse>,
                               public GenerateCall {
 public:
  // UNAUTHENTICATED before anything else is looked at. The object keeps itself alive until gRPC is
  // done with it. `context` outlives the call.
  static grpc::ServerWriteReactor<lockstep::v1::GenerateResponse>* Start(
      ApiContext& context, grpc::CallbackServerContext* server_context,
      const lockstep::v1::GenerateRequest* request);

  GrpcGenerateCall(ApiContext& context, grpc::CallbackServerContext* server_context,
                   const lockstep::v1::GenerateRequest* request,
                   std::shared_ptr<const Tenant> tenant);

  void OnWriteDone(bool ok) override { GenerateCall::OnWriteDone(ok); }
  void OnCancel() override { OnClientGone(); }
  void OnDone() override;

 private:
  void StartWrite(std::span<const lockstep::v1::GenerateResponse> messages) override;
  void StartLastWrite(std::span<const lockstep::v1::GenerateResponse> messages) override;
  void End(const absl::Status& status) override;
  void CutOff() override;

  Mutex context_mutex_;
  // gRPC's; null once it is done.
  grpc::CallbackServerContext* server_context_ ABSL_GUARDED_BY(context_mutex_);
  std::shared_ptr<GrpcGenerateCall> self_;  // until OnDone
};

}  // namespace lockstep::router
