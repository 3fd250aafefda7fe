#include "router/constraints/constraint_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/constraints/test_engine.h"
#include "tests/common/status_matchers.h"
#include "tests/router/templates/child_processes.h"

namespace lockstep::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kPath[] = "sampling.json_schema";

Constraint Schema(std::string text) { return {ConstraintKind::kJsonSchema, std::move(text)}; }

// Takes more processor time than any limit here.
Constraint Bomb(int number) {
  std::string patterns;
  for (int i = 0; i < 24; ++i) {
    patterns += fmt::format(R"({}{{"pattern": "(a|b)*a(a|b){{{}}}"}})", i == 0 ? "" : ",", i + 9);
  }
  return Schema(
      fmt::format(R"({{"title": "{}", "type": "string", "allOf": [{}]}})", number, patterns));
}

class ConstraintCheckerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE();
    checker_ = Started(absl::Seconds(1), 2);
  }

  std::unique_ptr<ConstraintChecker> Started(absl::Duration job_time, uint32_t max_processes) {
    ConstraintCheckerConfig config = {.engine = testing::TestEngineConfig(),
                                      .max_processes = max_processes};
    config.engine.job_time = job_time;
    auto started = ConstraintChecker::Start(config, testing::TestVocabulary(), metrics_);
    EXPECT_THAT(started, IsOk());
    return started.ok() ? *std::move(started) : nullptr;
  }

  prometheus::Registry registry_;
  const ConstraintMetrics metrics_{registry_, "m"};
  std::unique_ptr<ConstraintChecker> checker_;
};

TEST_F(ConstraintCheckerTest, AcceptsAndRefusesByName) {
  EXPECT_THAT(checker_->version(), StartsWith("llguidance@1.9."));
  EXPECT_THAT(checker_->Check(Schema(R"({"type": "object"})"), kPath), IsOk());
  EXPECT_THAT(checker_->Check(Schema(R"({"uniqueItems": true})"), kPath),
              HasError(kInvalid, AllOf(StartsWith("sampling.json_schema: "),
                                       HasSubstr("Unimplemented keys: [\"uniqueItems\"]"))));
  EXPECT_THAT(checker_->Check({ConstraintKind::kRegex, "(a"}, "sampling.regex"),
              HasError(kInvalid, AllOf(StartsWith("sampling.regex: "), HasSubstr("unclosed"))));
  // Beyond the limits: the engine is not asked.
  EXPECT_THAT(checker_->Check({ConstraintKind::kRegex, std::string(5000, 'a')}, "sampling.regex"),
              HasError(kInvalid, HasSubstr("expected at most 4096 bytes")));
  EXPECT_EQ(metrics_.accepted_total->Value(), 1);
  EXPECT_EQ(metrics_.refused_total->Value(), 3);
  EXPECT_EQ(metrics_.compile_seconds->Collect().histogram.sample_count, 3u);
}

TEST_F(ConstraintCheckerTest, ABombIsRefusedInTimeAndRemembered) {
  const absl::Status refused = checker_->Check(Bomb(1), kPath);
  ASSERT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(Message(refused), StartsWith(std::string(kPath) + ": "));
  const uint64_t num_compiled = metrics_.compile_seconds->Collect().histogram.sample_count;
  EXPECT_EQ(checker_->Check(Bomb(1), kPath), refused);
  EXPECT_EQ(metrics_.compile_seconds->Collect().histogram.sample_count, num_compiled);
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath), IsOk());
}

// The one engine of a checker that is stopped, as if other programs had all processors.
class StoppedEngineTest : public ConstraintCheckerTest {
 protected:
  void Stop(absl::Duration job_time) {
    checker_.reset();
    checker_ = Started(job_time, 1);
    const std::vector<pid_t> engines = testing::ChildrenOf(getpid(), "constraints");
    ASSERT_EQ(engines.size(), 1u);
    engine_ = engines[0];
    ASSERT_EQ(kill(engine_, SIGSTOP), 0);
  }
  void Continue() const { ASSERT_EQ(kill(engine_, SIGCONT), 0); }
  uint64_t num_compiled() const {
    return metrics_.compile_seconds->Collect().histogram.sample_count;
  }

  pid_t engine_ = 0;
};

TEST_F(StoppedEngineTest, WhatABusyMachineCausesIsNoVerdict) {
  Stop(absl::Milliseconds(200));
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath),
              HasError(absl::StatusCode::kUnavailable,
                       AllOf(StartsWith("sampling.json_schema: "), HasSubstr("too busy"))));
  EXPECT_EQ(metrics_.refused_total->Value(), 0);
  EXPECT_EQ(num_compiled(), 0u);
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath), IsOk());
}

TEST_F(StoppedEngineTest, AWaiterLeavesWithItsClient) {
  Stop(absl::Minutes(1));
  absl::Status first;
  std::thread first_thread([&] { first = checker_->Check(Schema("{}"), kPath); });
  while (checker_->num_open() == 0) std::this_thread::yield();
  // One waits for the verdict on its own constraint, and one for an engine.
  for (const char* const text : {"{}", R"({"type": "string"})"}) {
    CancelFlag gone;
    absl::Status status;
    std::thread waiter([&] { status = checker_->Check(Schema(text), kPath, &gone); });
    gone.Cancel();
    waiter.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  }
  EXPECT_EQ(checker_->num_open(), 1u);
  Continue();
  first_thread.join();
  EXPECT_THAT(first, IsOk());
  // A caller that gave up has decided nothing.
  EXPECT_THAT(checker_->Check(Schema(R"({"type": "string"})"), kPath), IsOk());
}

TEST_F(StoppedEngineTest, OneConstraintIsCompiledOnceForAllCallers) {
  Stop(absl::Minutes(1));
  std::vector<absl::Status> statuses(3, absl::UnknownError(""));
  std::vector<std::thread> threads;
  for (absl::Status& status : statuses) {
    threads.emplace_back(
        [this, &status] { status = checker_->Check(Schema(R"({"uniqueItems": true})"), kPath); });
  }
  while (checker_->num_open() == 0) std::this_thread::yield();
  Continue();
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses)
    EXPECT_THAT(status, HasError(kInvalid, HasSubstr("uniqueItems")));
  EXPECT_EQ(num_compiled(), 1u);
  EXPECT_EQ(metrics_.refused_total->Value(), 3);
}

TEST_F(ConstraintCheckerTest, ThreadsShareTheEngines) {
  std::vector<std::thread> threads;
  std::vector<absl::Status> bad(4, absl::OkStatus());
  std::atomic<int> num_good = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      bad[static_cast<size_t>(t)] = checker_->Check({ConstraintKind::kRegex, "("}, "r");
      for (int i = 0; i < 20; ++i) {
        const std::string text = fmt::format("[a-{}]{{{}}}", static_cast<char>('b' + t), i + 1);
        num_good += checker_->Check({ConstraintKind::kRegex, text}, "r").ok() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_good, 80);
  for (const absl::Status& status : bad) EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(ConstraintCheckerStartTest, WithoutTheLibraryItDoesNotStart) {
  prometheus::Registry registry;
  const ConstraintMetrics metrics(registry, "m");
  ConstraintCheckerConfig config = {.engine = testing::TestEngineConfig()};
  config.engine.packages = "/nonexistent";
  EXPECT_THAT(ConstraintChecker::Start(config, testing::TestVocabulary(), metrics),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("has no llguidance")));
}

}  // namespace
}  // namespace lockstep::router
