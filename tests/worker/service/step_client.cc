#include "tests/worker/service/step_client.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::testing {

namespace v1 = worker::v1;

StepClient::StepClient(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::Worker::NewStub(channel)) {
  context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  stream_ = stub_->Execute(&context_);
}

StepClient::~StepClient() {
  if (finished_) return;
  Cancel();
  Finish();
}

void StepClient::SendClaim(uint64_t epoch, bool takeover, uint64_t expected_incarnation) {
  v1::StepRequest request;
  request.set_epoch(epoch);
  request.mutable_claim()->set_takeover(takeover);
  request.mutable_claim()->set_expected_incarnation(expected_incarnation);
  Send(request);
}

bool StepClient::Claim(uint64_t epoch, bool takeover) {
  SendClaim(epoch, takeover);
  return TakeGrant(epoch);
}

bool StepClient::ClaimAsStandIn(uint64_t epoch) {
  v1::StepRequest request;
  request.set_epoch(epoch);
  request.mutable_claim()->set_stand_in(true);
  Send(request);
  return TakeGrant(epoch);
}

bool StepClient::TakeGrant(uint64_t epoch) {
  v1::StepResult answer;
  if (!Receive(&answer)) return false;
  EXPECT_EQ(answer.epoch(), epoch);
  EXPECT_EQ(answer.step_id(), 0u);
  EXPECT_FALSE(answer.has_refusal());
  return true;
}

v1::StepResult StepClient::Run(const v1::StepRequest& request) {
  v1::StepResult result;
  EXPECT_TRUE(Send(request));
  EXPECT_TRUE(Receive(&result));
  EXPECT_EQ(result.step_id(), request.step_id());
  return result;
}

grpc::Status StepClient::Finish() {
  finished_ = true;
  v1::StepResult unread;
  while (stream_->Read(&unread)) {
  }
  return stream_->Finish();
}

}  // namespace lockstep::testing
