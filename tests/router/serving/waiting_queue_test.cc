#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/router/serving/serving_fixture.h"
#include "tests/router/serving/test_tenants.h"
#include "tests/router/strands/function_strand.h"

// Who has the places of requests that wait, over gRPC with everything behind it.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::HasSubstr;

// A pool of one thread that runs nothing else until it is released.
class HeldPool {
 public:
  // Returns once the pool is held. Whatever came before would run before.
  explicit HeldPool(router::StrandRunner& pool) {
    const auto held = std::make_shared<std::latch>(1);
    pool.Schedule(std::make_shared<router::testing::FunctionStrand>([held, released = released_] {
      held->count_down();
      released->wait();
    }));
    held->wait();
  }
  ~HeldPool() { Release(); }
  void Release() {
    if (!released_->try_wait()) released_->count_down();
  }

 private:
  const std::shared_ptr<std::latch> released_ = std::make_shared<std::latch>(1);
};

class WaitingQueueTest : public ServingTest {
 protected:
  void StartWith(const std::vector<TestTenant>& tenants) {
    router_config_.tenants_path = WriteTenants(folder_, tenants);
    router_config_.num_encode_threads = 1;
    StartBoth();
  }
  uint32_t NumWaiting() const { return router_->engine().admission().counts().waiting_requests; }

 private:
  const TempFolder folder_;
};

TEST_F(WaitingQueueTest, ATenantWithoutALimitLeavesPlacesInTheQueue) {
  router_config_.engine.admission.max_waiting_requests = 4;
  StartWith({{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  // What waits for the pool waits in the queue as well.
  HeldPool pool(router_->api().encode_pool);
  std::vector<std::thread> clients;
  const auto open_one = [&](const std::string& key) {
    const uint32_t num_waiting = NumWaiting();
    clients.emplace_back([this, key] { GenerateAs(key, TextRequest("Hello", 1)); });
    Eventually("one more waits", [&] { return NumWaiting() == num_waiting + 1; });
  };
  open_one("acme-key");
  open_one("acme-key");
  grpc::ClientContext context;
  ShowKey(context, "acme-key");
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));  // not to hang
  const Reply refused = Generate(context, TextRequest("Hello", 1));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("its share of the queue"));
  open_one("blue-key");
  pool.Release();
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(GenerateAs("acme-key", TextRequest("Hello", 1)).status.ok());
}

TEST_F(WaitingQueueTest, WhatWouldWaitTooLongForItsFirstTokenIsRefused) {
  router_config_.engine.replica.scheduler.max_time_to_first_token = absl::Nanoseconds(2);
  // So that a prompt takes several steps, however fast the machine is.
  router_config_.engine.replica.scheduler.max_prefill_tokens_per_step = 16;
  const v1::GenerateRequest request = TextRequest(std::string(100, 'x'), 1);
  StartBoth();
  // The first shows how long prompts take. Nothing waits before it.
  ASSERT_TRUE(Generate(TextRequest(std::string(100, 'y'), 2)).status.ok());
  HoldForwards();
  std::thread client([&] { EXPECT_TRUE(Generate(request).status.ok()); });
  Eventually("a prompt is under way",
             [this] { return router_->engine().replica_status().live_requests == 1; });
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));  // not to hang
  const Reply refused = Generate(context, request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("the first token would come after about"));
  ReleaseForwards();
  client.join();
  Eventually("it is counted", [this] { return Rejected(router::Rejection::kFirstToken) == 1; });
}

TEST_F(WaitingQueueTest, ACancelledRequestLeavesTheQueueBeforeItsTurn) {
  router_config_.engine.admission.max_waiting_requests = 2;
  StartWith({{"acme", {"acme-key"}}});
  HeldPool pool(router_->api().encode_pool);
  // Token ids wait for no pool.
  v1::GenerateRequest ids;
  ids.mutable_token_ids()->add_ids(1);
  ids.mutable_stop()->set_max_tokens(1);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    ShowKey(context, "acme-key");
    const auto reader = stub_->Generate(&context, TextRequest("Hello", 1));
    Eventually("it waits", [&] { return NumWaiting() == 1; });
    if (i == 0) {
      EXPECT_EQ(GenerateAs("acme-key", ids).status.error_code(),
                grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
    context.TryCancel();
    Eventually("it is gone", [&] { return NumWaiting() == 0; });
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(GenerateAs("acme-key", ids).status.ok());
  pool.Release();
}

}  // namespace
}  // namespace lockstep::testing
