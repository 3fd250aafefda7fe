// `lockstep upgrade` over real processes: every way in which it can fail leaves a server that
// answers, and the next upgrade repairs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "tests/cli/upgrade/upgrade_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(UpgradeProcessTest, AProgramThatDoesNotStartIsRefusedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "2"}));
  const std::set<pid_t> before = Workers();
  const auto expect_refusal = [&](const std::string& why) {
    EXPECT_EQ(Upgrade(), 1);
    EXPECT_THAT(output_, AllOf(HasSubstr("no worker was touched: "), HasSubstr(why)));
    EXPECT_EQ(Workers(), before);
  };
  ReplaceWorker("echo library is missing >&2\nexit 3\n");
  expect_refusal("lockstep-worker --check-config ended with exit code 3: library is missing");
  ReplaceWorker("exec $WORKER \"$@\" --no-such-flag\n");
  expect_refusal("--no-such-flag: there is no such flag");
  fs::remove(folder_ + "/lockstep-worker");
  expect_refusal("exit code 127");
  ExpectAnswers();
}

TEST_F(UpgradeProcessTest, ASuccessorThatEndsStopsTheRollOut) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "2"}));
  const std::set<pid_t> before = Workers();
  ReplaceWorker(UnlessChecked("echo the driver is too old >&2\nexit 3\n"));
  EXPECT_EQ(Upgrade(), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("worker-0.log:\nthe driver is too old\n"),
                             HasSubstr("worker 0: the new program ended with exit code 3."),
                             HasSubstr("0 of 2 workers were replaced before"),
                             HasSubstr("No further worker was touched")));
  EXPECT_EQ(Kept(before).size(), 1u);
  ExpectAnswers();
  ASSERT_TRUE(serve_->WaitFor("worker 0 ended with exit code 3; it starts again in"));

  ReplaceWorker("exec $WORKER \"$@\"\n");
  EXPECT_EQ(Upgrade(), 0) << output_;
  EXPECT_THAT(Kept(before), IsEmpty());
  ExpectAnswers();
}

TEST_F(UpgradeProcessTest, AnyWorkerThatFailedIsRepairedFirst) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "3"}));
  const std::set<pid_t> before = Workers();
  ReplaceWorker(OfWorker(1, "exit 3\n"));
  EXPECT_EQ(Upgrade(), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("worker 1: the new program ended with exit code 3."),
                             HasSubstr("1 of 3 workers were replaced before")));
  const pid_t untouched = WorkerNumber(2);
  EXPECT_EQ(Kept(before), std::set<pid_t>{untouched});

  ReplaceWorker("exec $WORKER \"$@\"\n");
  CliProcess upgrade(UpgradeCommand(), Options());
  ASSERT_TRUE(upgrade.WaitFor("worker 1 starts with the new program"));
  EXPECT_THAT(upgrade.output(), Not(HasSubstr(" drains")));
  for (const std::string worker : {"worker 0", "worker 2"}) {
    EXPECT_TRUE(upgrade.WaitFor(worker + " starts with the new program"));
  }
  EXPECT_EQ(upgrade.Wait(), 0) << upgrade.output();
  ExpectAnswers();
}

TEST_F(UpgradeProcessTest, ANewProgramThatEndsLaterStopsTheRollOut) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "3"}));
  const pid_t second = WorkerNumber(1);
  const pid_t third = WorkerNumber(2);
  SendSignal(second, SIGSTOP);  // it cannot drain
  CliProcess upgrade(UpgradeCommand(), Options());
  ASSERT_TRUE(upgrade.WaitFor("worker 1 (process " + std::to_string(second) + ") drains"));
  kill(WorkerNumber(0), SIGKILL);
  EXPECT_EQ(upgrade.Wait(), 1);
  EXPECT_THAT(upgrade.output(), AllOf(HasSubstr("worker 0: the new program ended with signal 9"),
                                      HasSubstr("1 of 3 workers were replaced before"),
                                      HasSubstr("worker 1 gets the new program too")));
  ASSERT_TRUE(serve_->WaitFor("worker 0 runs again"));
  SendSignal(second, SIGCONT);
  ASSERT_TRUE(serve_->WaitFor("worker 1 ended with exit code 0; it starts again in 0"));
  ASSERT_TRUE(serve_->WaitFor("worker 1 runs again"));
  EXPECT_EQ(WorkerNumber(2), third);
  ExpectAnswers();
}

TEST_F(UpgradeProcessTest, AWorkerThatIsKilledInItsDrainIsReplacedAllTheSame) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::set<pid_t> before = Workers();
  SignalWorkers(SIGSTOP);
  CliProcess upgrade(UpgradeCommand(), Options());
  ASSERT_TRUE(upgrade.WaitFor(" drains"));
  SignalWorkers(SIGKILL);
  EXPECT_TRUE(upgrade.WaitFor("worker 0 ended with signal 9 (Killed) in its drain"));
  EXPECT_EQ(upgrade.Wait(), 0) << upgrade.output();
  EXPECT_THAT(Kept(before), IsEmpty());
  ExpectAnswers();
}

TEST_F(UpgradeProcessTest, AWorkerWithOtherNumericsStopsTheRollOut) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "2"}));
  const std::set<pid_t> before = Workers();
  const std::string answer = TokensOf(RunShell(GenerateCommand("--temperature 0")));
  ReplaceWorker("exec $WORKER \"$@\" --kv-dtype=fp8\n");
  EXPECT_EQ(Upgrade(), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("worker 0: the router does not use it"),
                             HasSubstr("\"To change the weights\" in docs/operations.md")));
  EXPECT_EQ(Kept(before).size(), 1u);
  EXPECT_EQ(TokensOf(RunShell(GenerateCommand("--temperature 0"))), answer);

  ReplaceWorker("exec $WORKER \"$@\"\n");  // the old program brings it back
  EXPECT_EQ(Upgrade(), 0) << output_;
  EXPECT_EQ(TokensOf(RunShell(GenerateCommand("--temperature 0"))), answer);
}

TEST_F(UpgradeProcessTest, AWorkerThatDoesNotRunGoesFirst) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "2"}));
  const std::string pipe = home_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ReplaceWorker(UnlessChecked("read go < " + pipe + "\nexec $WORKER \"$@\"\n"));
  kill(WorkerNumber(1), SIGKILL);
  ASSERT_TRUE(serve_->WaitFor("worker 1 ended with signal 9"));
  CliProcess upgrade(UpgradeCommand(), Options());
  for (const std::string worker : {"worker 1", "worker 0"}) {
    ASSERT_TRUE(upgrade.WaitFor(worker + " starts with the new program"));
    std::ofstream(pipe) << "go\n";  // returns once the worker reads it
    ASSERT_TRUE(upgrade.WaitFor(worker + " (process "));
  }
  EXPECT_EQ(upgrade.Wait(), 0) << upgrade.output();
  ExpectAnswers();
}

}  // namespace
}  // namespace lockstep::testing
