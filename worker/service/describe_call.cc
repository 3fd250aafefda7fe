#include "worker/service/describe_call.h"

namespace lockstep::worker {

DescribeCall::DescribeCall(Host* host, v1::Worker::AsyncService* service,
                           grpc::ServerCompletionQueue* queue)
    : host_(host), responder_(&context_) {
  service->RequestDescribe(&context_, &request_, &responder_, queue, queue, accepted_tag_.id());
}

void DescribeCall::OnAccepted(bool ok) {
  if (!ok) {  // the server shuts down
    host_->OnOver(*this);
    return;
  }
  v1::DescribeResponse response;
  host_->OnDescribe(&response);
  responder_.Finish(response, grpc::Status::OK, finished_tag_.id());
}

void DescribeCall::OnFinished(bool /*ok*/) { host_->OnOver(*this); }

}  // namespace lockstep::worker
