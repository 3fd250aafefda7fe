#include "router/constraints/constraint_checker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/constraints/test_engine.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
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
    config.engine.packages = packages_;
    auto started = ConstraintChecker::Start(config, testing::TestVocabulary(), metrics_);
    EXPECT_THAT(started, IsOk());
    return started.ok() ? *std::move(started) : nullptr;
  }

  uint64_t num_compiled() const {
    return metrics_.compile_seconds->Collect().histogram.sample_count;
  }

  std::string packages_ = testing::TestEngineConfig().packages;
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

TEST_F(ConstraintCheckerTest, NothingIsCompiledForAClientThatIsGone) {
  CancelFlag gone;
  gone.Cancel();
  const absl::Status status = checker_->Check(Schema("{}"), kPath, &gone);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(num_compiled(), 0u);
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath), IsOk());
}

// A checker with one engine. A stopped engine is one on a machine where other programs have all
// processors.
class OneEngineTest : public ConstraintCheckerTest {
 protected:
  void Start(absl::Duration job_time) {
    checker_.reset();
    checker_ = Started(job_time, 1);
    const std::vector<pid_t> engines = testing::ChildrenOf(getpid(), "constraints");
    ASSERT_EQ(engines.size(), 1u);
    engine_ = engines[0];
  }
  void StartStopped(absl::Duration job_time) {
    ASSERT_NO_FATAL_FAILURE(Start(job_time));
    Signal(SIGSTOP);
  }
  void Signal(int number) const { ASSERT_EQ(kill(engine_, number), 0); }
  // Of a stopped engine.
  void Crash() const {
    Signal(SIGSEGV);
    Signal(SIGCONT);
  }
  void Await(size_t num_open, size_t num_waiting) const {
    while (checker_->num_open() != num_open || checker_->num_waiting() != num_waiting) {
      std::this_thread::yield();
    }
  }
  // A call on a thread of its own.
  struct Call {
    CancelFlag gone;
    std::atomic<bool> has_returned = false;
    absl::Status status;
    std::thread thread;
  };
  void Begin(Call& call, const std::string& schema) {
    call.thread = std::thread([this, &call, schema] {
      call.status = checker_->Check(Schema(schema), kPath, &call.gone);
      call.has_returned = true;
    });
  }

  pid_t engine_ = 0;
};

constexpr char kText[] = R"({"type": "string"})";

TEST_F(OneEngineTest, WhatABusyMachineCausesIsNoVerdict) {
  StartStopped(absl::Milliseconds(200));
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath),
              HasError(absl::StatusCode::kUnavailable,
                       AllOf(StartsWith("sampling.json_schema: "), HasSubstr("too busy"))));
  EXPECT_EQ(metrics_.refused_total->Value(), 0);
  EXPECT_EQ(num_compiled(), 0u);
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath), IsOk());
}

TEST_F(OneEngineTest, WhatEndedTheEngineBeforeIsNoVerdict) {
  for (const int signal : {SIGKILL, SIGSEGV}) {
    Start(absl::Minutes(1));
    const double restarts = metrics_.restarts_total->Value();
    EXPECT_THAT(checker_->Check(Schema("true"), kPath), IsOk());
    const uint64_t num_before = num_compiled();
    Signal(signal);
    ASSERT_TRUE(testing::HasEnded(engine_));
    EXPECT_THAT(checker_->Check(Schema("{}"), kPath), IsOk());
    EXPECT_EQ(metrics_.restarts_total->Value(), restarts + 1);
    EXPECT_EQ(num_compiled(), num_before + 1);
    EXPECT_THAT(checker_->Check(Schema("{}"), kPath), IsOk());
    EXPECT_EQ(num_compiled(), num_before + 1) << "the verdict is remembered";
  }
}

TEST_F(OneEngineTest, WhatCrashesAFreshEngineIsRefused) {
  StartStopped(absl::Minutes(1));
  Call call;
  Begin(call, "{}");
  Await(/*num_open=*/1, /*num_waiting=*/0);
  Crash();
  call.thread.join();
  EXPECT_THAT(call.status, HasError(kInvalid, HasSubstr("crash")));
  EXPECT_EQ(metrics_.restarts_total->Value(), 1);
  EXPECT_EQ(checker_->Check(Schema("{}"), kPath), call.status);
  EXPECT_EQ(num_compiled(), 1u);
  EXPECT_THAT(checker_->Check(Schema(kText), kPath), IsOk());
}

// A link to a folder with Python packages.
class EngineRestartTest : public OneEngineTest {
 protected:
  EngineRestartTest() {
    packages_ = folder_.path() + "/link";
    LinkTo(testing::TestEngineConfig().packages);
  }
  void LinkTo(const std::string& folder) const {
    std::filesystem::remove(packages_);
    std::filesystem::create_directory_symlink(folder, packages_);
  }

  const TempFolder folder_;
};

TEST_F(EngineRestartTest, AnEngineThatCannotBeStartedAgainIsReplacedLater) {
  Start(absl::Minutes(1));
  LinkTo("/nonexistent");
  Signal(SIGKILL);
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("cannot be started again")));
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("llguidance")));
  EXPECT_EQ(num_compiled(), 0u);
  LinkTo(testing::TestEngineConfig().packages);
  EXPECT_THAT(checker_->Check(Schema("{}"), kPath), IsOk());
}

TEST_F(EngineRestartTest, AVerdictDoesNotWaitForIt) {
  StartStopped(absl::Minutes(1));
  Call first, second;
  Begin(first, "{}");
  Await(/*num_open=*/1, /*num_waiting=*/0);
  Begin(second, "{}");
  Await(/*num_open=*/1, /*num_waiting=*/1);
  // A library that loads until the other end of a pipe opens.
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_directory(folder_.path() + "/llguidance");
  folder_.Write("llguidance/__init__.py", "open('" + pipe + "').read()\n");
  LinkTo(folder_.path());
  Crash();
  second.thread.join();
  EXPECT_THAT(second.status, HasError(kInvalid, HasSubstr("crash")));
  EXPECT_FALSE(first.has_returned) << "it starts the engine again";
  while (!first.has_returned) {
    const int end = open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
    if (end >= 0) close(end);
    std::this_thread::yield();
  }
  first.thread.join();
  EXPECT_EQ(first.status, second.status);
}

TEST_F(OneEngineTest, NothingIsTriedAgainForAClientThatIsGone) {
  StartStopped(absl::Minutes(1));
  Call call, other;
  Begin(call, "{}");
  Await(/*num_open=*/1, /*num_waiting=*/0);
  Begin(other, kText);
  Await(/*num_open=*/2, /*num_waiting=*/1);
  call.gone.Cancel();
  Signal(SIGKILL);
  call.thread.join();
  EXPECT_TRUE(absl::IsCancelled(call.status)) << call.status;
  other.thread.join();
  EXPECT_THAT(other.status, IsOk());
  EXPECT_EQ(num_compiled(), 1u);
}

TEST_F(OneEngineTest, AWaiterLeavesWithItsClient) {
  StartStopped(absl::Minutes(1));
  Call first;
  Begin(first, "{}");
  Await(/*num_open=*/1, /*num_waiting=*/0);
  {
    Call waits_for_the_verdict;
    Begin(waits_for_the_verdict, "{}");
    Await(/*num_open=*/1, /*num_waiting=*/1);
    waits_for_the_verdict.gone.Cancel();
    waits_for_the_verdict.thread.join();
    EXPECT_TRUE(absl::IsCancelled(waits_for_the_verdict.status));
  }
  {
    Call waits_for_an_engine;
    Begin(waits_for_an_engine, kText);
    Await(/*num_open=*/2, /*num_waiting=*/1);
    waits_for_an_engine.gone.Cancel();
    waits_for_an_engine.thread.join();
    EXPECT_TRUE(absl::IsCancelled(waits_for_an_engine.status));
  }
  EXPECT_EQ(checker_->num_open(), 1u);
  Signal(SIGCONT);
  first.thread.join();
  EXPECT_THAT(first.status, IsOk());
  // A caller that gave up has decided nothing.
  EXPECT_THAT(checker_->Check(Schema(kText), kPath), IsOk());
}

TEST_F(OneEngineTest, AWaiterTakesTheTurnOfACallerThatGivesUp) {
  StartStopped(absl::Minutes(1));
  Call busy, owner, waiter;
  Begin(busy, "{}");
  Await(/*num_open=*/1, /*num_waiting=*/0);
  Begin(owner, kText);
  Await(/*num_open=*/2, /*num_waiting=*/1);
  Begin(waiter, kText);
  Await(/*num_open=*/2, /*num_waiting=*/2);
  owner.gone.Cancel();
  owner.thread.join();
  EXPECT_TRUE(absl::IsCancelled(owner.status)) << owner.status;
  Signal(SIGCONT);
  busy.thread.join();
  waiter.thread.join();
  EXPECT_THAT(busy.status, IsOk());
  EXPECT_THAT(waiter.status, IsOk());
  EXPECT_EQ(num_compiled(), 2u);
}

TEST_F(OneEngineTest, OneConstraintIsCompiledOnceForAllCallers) {
  StartStopped(absl::Minutes(1));
  std::array<Call, 3> calls;
  for (Call& call : calls) Begin(call, R"({"uniqueItems": true})");
  Await(/*num_open=*/1, /*num_waiting=*/2);
  Signal(SIGCONT);
  for (Call& call : calls) {
    call.thread.join();
    EXPECT_THAT(call.status, HasError(kInvalid, HasSubstr("uniqueItems")));
  }
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
