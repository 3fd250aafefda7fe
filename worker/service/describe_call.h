#pragma once

#include <grpcpp/grpcpp.h>

#include "common/grpc/completion_tag.h"
#include "lockstep/worker/v1/worker.grpc.pb.h"

namespace lockstep::worker {

// One Describe call. Lives on the service thread.
class DescribeCall {
 public:
  class Host {
   public:
    // A call has come in: fill the answer and listen for the next one.
    virtual void OnDescribe(v1::DescribeResponse* response) = 0;
    virtual void OnOver(DescribeCall& call) = 0;  // delete it

   protected:
    ~Host() = default;
  };

  DescribeCall(Host* host, v1::Worker::AsyncService* service, grpc::ServerCompletionQueue* queue);
  DescribeCall(const DescribeCall&) = delete;
  DescribeCall& operator=(const DescribeCall&) = delete;

 private:
  void OnAccepted(bool ok);
  void OnFinished(bool ok);

  Host* const host_;
  grpc::ServerContext context_;
  v1::DescribeRequest request_;
  grpc::ServerAsyncResponseWriter<v1::DescribeResponse> responder_;
  MethodTag<DescribeCall> accepted_tag_{this, &DescribeCall::OnAccepted};
  MethodTag<DescribeCall> finished_tag_{this, &DescribeCall::OnFinished};
};

}  // namespace lockstep::worker
