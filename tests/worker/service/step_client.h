#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "lockstep/worker/v1/worker.grpc.pb.h"

namespace lockstep::testing {

// A router as far as the wire goes: one Execute stream, written and read by the test itself. Every
// wait ends after 20 s with a failed call.
class StepClient {
 public:
  explicit StepClient(const std::shared_ptr<grpc::Channel>& channel);
  ~StepClient();

  bool Send(const worker::v1::StepRequest& request) { return stream_->Write(request); }
  void SendClaim(uint64_t epoch, bool takeover = false, uint64_t expected_incarnation = 0);
  // False when the stream has ended.
  bool Receive(worker::v1::StepResult* result) { return stream_->Read(result); }
  // Claims and takes the answer. False when the claim was not granted.
  bool Claim(uint64_t epoch, bool takeover = false);
  // Likewise, for a router that the worker does not belong to.
  bool ClaimAsStandIn(uint64_t epoch);
  // Sends a step and takes its result, which must come.
  worker::v1::StepResult Run(const worker::v1::StepRequest& request);

  void CloseInput() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // Drops what is still to be read.
  grpc::Status Finish();

 private:
  bool TakeGrant(uint64_t epoch);

  std::unique_ptr<worker::v1::Worker::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<worker::v1::StepRequest, worker::v1::StepResult>>
      stream_;
  bool finished_ = false;
};

}  // namespace lockstep::testing
