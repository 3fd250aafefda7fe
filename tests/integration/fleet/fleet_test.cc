// Three workers behind one router, as processes; workers are lost while clients stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/common/temp_folder.h"
#include "tests/integration/fleet/fleet_fixture.h"

namespace lockstep::testing {
namespace {

TEST_F(FleetTest, WorkersKilledOneAtATimeAreInvisible) {
  ASSERT_NO_FATAL_FAILURE(StartWorkersAndRouter());
  ExpectInvisible([this] { KillWorkersInTurn(); });
}

// Requests move from one degree to another in the middle.
TEST_F(FleetTest, WorkersOfDifferentDegreesTakeOverFromEachOther) {
  const std::vector<std::string> two_ranks = {"--tensor_parallel=2"};
  worker_flags_ = {{}, two_ranks, two_ranks};
  ASSERT_NO_FATAL_FAILURE(StartWorkersAndRouter());
  ExpectInvisible([this] { KillWorkersInTurn(); });
}

TEST_F(FleetTest, WorkersWithAnFp8CacheTakeOverFromEachOther) {
  const std::vector<std::string> one_rank = {"--kv_dtype=fp8"};
  worker_flags_ = {one_rank, {"--kv_dtype=fp8", "--tensor_parallel=2"}, one_rank};
  ASSERT_NO_FATAL_FAILURE(StartWorkersAndRouter());
  ExpectInvisible([this] { KillWorkersInTurn(); });
}

TEST_F(FleetTest, AWorkerWithOtherWeightsServesOnlyWhereNoneIsReadyOrItIsAllowed) {
  const TempFolder folder;
  const std::string trained_address = "unix:" + folder.path() + "/trained";
  const std::string random_address = "unix:" + folder.path() + "/random";
  const std::string both = trained_address + "," + random_address;
  ASSERT_NO_FATAL_FAILURE(StartRouterOf(both));
  auto trained = LaunchWorker(trained_address);
  ASSERT_TRUE(trained.ok()) << trained.status();
  ExpectStateBecomes(*trained, "ready");
  auto random = LaunchWorker(random_address, kModel, {"--load_format=random"});
  ASSERT_TRUE(random.ok()) << random.status();
  ExpectStateBecomes(*random, "mismatched");
  const Answer expected = Generate(RequestOf(0));
  ASSERT_TRUE(expected.status.ok()) << expected.status.error_message();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Generate(RequestOf(0)).tokens, expected.tokens);
  trained->Signal(SIGKILL);
  ExpectStateBecomes(*random, "ready");
  auto again = LaunchWorker(trained_address);
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectStateBecomes(*again, "mismatched");
  router_.reset();
  ASSERT_NO_FATAL_FAILURE(StartRouterOf(both, {"--allow_mixed_workers", "--takeover"}));
  ExpectStateBecomes(*again, "ready");
  ExpectStateBecomes(*random, "ready");
}

// Its bits are others, although the weights are the same.
TEST_F(FleetTest, AWorkerWithAnFp8CacheDoesNotServeBesideOneWithBf16) {
  const TempFolder folder;
  const std::string bf16_address = "unix:" + folder.path() + "/bf16";
  const std::string fp8_address = "unix:" + folder.path() + "/fp8";
  ASSERT_NO_FATAL_FAILURE(StartRouterOf(bf16_address + "," + fp8_address));
  auto bf16 = LaunchWorker(bf16_address);
  ASSERT_TRUE(bf16.ok()) << bf16.status();
  ExpectStateBecomes(*bf16, "ready");
  auto fp8 = LaunchWorker(fp8_address, kModel, {"--kv_dtype=fp8"});
  ASSERT_TRUE(fp8.ok()) << fp8.status();
  ExpectStateBecomes(*fp8, "mismatched");
  bf16->Signal(SIGKILL);
  ExpectStateBecomes(*fp8, "ready");
}

TEST_F(FleetTest, AWorkerAtAUnixSocketServesAndIsReplaced) {
  const TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(StartWorker("unix:" + folder.path() + "/worker"));
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  ExpectWorkerStateBecomes("ready");
  const Answer before = Generate(RequestOf(0));
  ASSERT_TRUE(before.status.ok()) << before.status.error_message();
  EXPECT_FALSE(LaunchWorker(worker_->grpc_address()).ok()) << "a living socket is not taken over";
  worker_->Signal(SIGKILL);
  ExpectWorkerStateBecomes("lost");
  ASSERT_NO_FATAL_FAILURE(ProcessTest::RestartWorker());
  ExpectWorkerStateBecomes("ready");
  EXPECT_EQ(Generate(RequestOf(0)).tokens, before.tokens);
}

TEST_F(FleetTest, AWorkerThatHangsIsInvisible) {
  ASSERT_NO_FATAL_FAILURE(StartWorkersAndRouter({"--step_timeout=500ms"}));
  ExpectInvisible([this] {
    workers_[1].Signal(SIGSTOP);
    ExpectStateBecomes(workers_[1], "lost");
    workers_[1].Signal(SIGCONT);
    ExpectStateBecomes(workers_[1], "ready");
  });
}

TEST_F(FleetTest, WorkersThatDrainOneAfterTheOtherAreInvisible) {
  ASSERT_NO_FATAL_FAILURE(StartWorkersAndRouter());
  std::vector<Answer> undisturbed;
  for (uint32_t i = 0; i < kNumStreams; ++i) undisturbed.push_back(Generate(RequestOf(i)));
  for (size_t i = 0; i + 1 < workers_.size(); ++i) {
    workers_[i].Signal(SIGTERM);
    EXPECT_EQ(workers_[i].Wait(absl::Seconds(30)), 0);
    ExpectStateBecomes(workers_[i], "lost");
  }
  for (uint32_t i = 0; i < kNumStreams; ++i) {
    EXPECT_EQ(Generate(RequestOf(i)).tokens, undisturbed[i].tokens) << "on the last worker";
  }
  ExpectNothingHeld();
}

TEST_F(FleetTest, WorkersAreFoundByNameOrByAddress) {
  for (int i = 0; i < 2; ++i) {
    auto worker = LaunchWorker("127.0.0.1:0");
    ASSERT_TRUE(worker.ok()) << worker.status();
    workers_.push_back(*std::move(worker));
  }
  const std::string named = workers_[0].grpc_address();
  const std::string port = named.substr(named.rfind(':') + 1);
  // The address of the named one is known twice, and is one worker.
  ASSERT_NO_FATAL_FAILURE(StartRouterOf(
      "dns:///localhost:" + port + "," + workers_[1].grpc_address() + ",dns:///127.0.0.1:" + port,
      {"--worker_resolve_interval=100ms"}));
  for (const ChildProcess& worker : workers_) ExpectStateBecomes(worker, "ready");
  const Answer expected = Generate(RequestOf(0));
  EXPECT_TRUE(expected.status.ok()) << expected.status.error_message();
  workers_[1].Signal(SIGKILL);
  ExpectStateBecomes(workers_[1], "lost");
  EXPECT_EQ(Generate(RequestOf(0)).tokens, expected.tokens) << "on the named one";
  ExpectNothingHeld();
}

TEST_F(FleetTest, WithoutAnyWorkerNewRequestsAreRefusedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(StartWorkersAndRouter({"--no_worker_grace=0s"}));
  for (ChildProcess& worker : workers_) {
    worker.Signal(SIGKILL);
    ExpectStateBecomes(worker, "lost");
  }
  const Answer answer = Generate(RequestOf(0));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(answer.status.error_message(), ::testing::HasSubstr("none of 3 workers is attached"));
  ASSERT_NO_FATAL_FAILURE(RestartWorker(2));
  EXPECT_TRUE(Generate(RequestOf(0)).status.ok());
}

}  // namespace
}  // namespace lockstep::testing
