// `lockstep upgrade` over real processes: workers are replaced under load, and who may ask for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "cli/serve/port.h"
#include "cli/serve/upgrade/control_socket.h"
#include "tests/cli/upgrade/upgrade_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(UpgradeProcessTest, WorkersAreReplacedOneByOneUnderLoad) {
  // Without a grace, every sequence that runs moves to the other worker.
  ASSERT_NO_FATAL_FAILURE(Serve(
      {"--workers", "2", "--worker-flag", "--drain-grace=0", "--", "--placement=round-robin"}));
  const std::set<pid_t> before = Workers();
  const pid_t router = Router();
  ASSERT_EQ(before.size(), 2u);
  ExpectUpgradeUnderLoad();
  EXPECT_THAT(output_, AllOf(HasSubstr("/bin/lockstep-worker takes the workers' flags\n"),
                             HasSubstr("worker 0 (process "), HasSubstr("worker 1 (process "),
                             HasSubstr(" is ready: version "), Not(HasSubstr("unknown")),
                             HasSubstr("every worker was replaced\n")));
  EXPECT_EQ(Workers().size(), 2u);
  EXPECT_THAT(Kept(before), IsEmpty());
  EXPECT_EQ(Router(), router);
  const auto metrics = HttpGet(metrics_address_, "/metrics");
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  const std::string retried = "lockstep_router_requests_retried_total{model=\"tiny-llama\",";
  EXPECT_GT(MetricValue(*metrics, retried + "outcome=\"resumed\"}").value(), 0);
  EXPECT_EQ(MetricValue(*metrics, retried + "outcome=\"failed\"}").value(), 0);
}

TEST_F(UpgradeProcessTest, RequestsWaitForTheSuccessorOfTheOnlyWorker) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--", "--no-worker-grace=10m", "--failover-wait=10m"}));
  const std::set<pid_t> before = Workers();
  ExpectUpgradeUnderLoad();
  EXPECT_THAT(output_, AllOf(HasSubstr("it is the only one"), HasSubstr("--no-worker-grace"),
                             HasSubstr("--failover-wait")));
  EXPECT_THAT(Kept(before), IsEmpty());
}

TEST_F(UpgradeProcessTest, TheRouterOfOneWorkerWaitsLongerForIt) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--", "--no-worker-grace=3s"}));
  // The later one counts.
  EXPECT_THAT(CommandLine(Router()),
              ContainsRegex(" --no-worker-grace=1m .* --no-worker-grace=3s "));
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "2"}));
  EXPECT_THAT(CommandLine(Router()), Not(HasSubstr("--no-worker-grace")));
}

TEST_F(UpgradeProcessTest, OneUpgradeRunsAtATimeAndOutlivesItsClient) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "2"}));
  const std::set<pid_t> before = Workers();
  SignalWorkers(SIGSTOP);  // they cannot drain
  CliProcess first(UpgradeCommand(), Options());
  ASSERT_TRUE(first.WaitFor(" drains"));
  EXPECT_EQ(Upgrade(), 1);
  EXPECT_THAT(output_, HasSubstr("another upgrade runs"));
  first.Signal(SIGKILL);
  EXPECT_EQ(first.Wait(), 128 + SIGKILL);
  SignalWorkers(SIGCONT);
  ASSERT_TRUE(serve_->WaitFor("upgrade: done: every worker was replaced"));
  EXPECT_THAT(Kept(before), IsEmpty());
  ExpectAnswers();
}

TEST_F(UpgradeProcessTest, CtrlCOfTheServerEndsItDuringAnUpgrade) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--workers", "2"}));
  const std::set<pid_t> before = Workers();
  SignalWorkers(SIGSTOP);
  CliProcess upgrade(UpgradeCommand(), Options());
  ASSERT_TRUE(upgrade.WaitFor(" drains"));
  serve_->Signal(SIGINT);
  EXPECT_EQ(upgrade.Wait(), 1);
  EXPECT_THAT(upgrade.output(), HasSubstr("`lockstep serve` was told to stop"));
  SignalWorkers(SIGCONT);
  EXPECT_EQ(serve_->Wait(), 0) << serve_->output();
  for (const pid_t worker : before) EXPECT_TRUE(IsGone(worker));
}

TEST_F(UpgradeProcessTest, RequestsStillGetTheSuccessorWhenTheServerStops) {
  ASSERT_NO_FATAL_FAILURE(Serve(
      {"--worker-flag", "--drain-grace=0", "--", "--failover-wait=1m", "--drain-timeout=1m"}));
  std::deque<Asker> askers;
  askers.emplace_back(GenerateCommand("--temperature 0"), TokensOf);
  askers[0].Start();
  StopBusyWorkers();
  CliProcess upgrade(UpgradeCommand(), Options());
  ASSERT_TRUE(upgrade.WaitFor(" drains"));
  serve_->Signal(SIGTERM);
  ASSERT_TRUE(serve_->WaitFor("stopping: "));
  askers[0].FinishSoon();
  SignalWorkers(SIGCONT);
  EXPECT_THAT(askers[0].Finish(), IsEmpty());
  EXPECT_EQ(serve_->Wait(), 0) << serve_->output();
  EXPECT_EQ(upgrade.Wait(), 1);
}

TEST_F(UpgradeProcessTest, DuringTheStartItIsRefused) {
  const std::string pipe = home_.path() + "/pipe";
  const std::string logs = home_.path() + "/logs";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ReplaceWorker("read go < " + pipe + "\nexec $WORKER \"$@\"\n");
  CliProcess serve({"serve", kModel, "--port", "0", "--device", "cpu", "--log-dir", logs},
                   Options());
  ASSERT_TRUE(serve.WaitFor("logs are in"));
  std::string port;
  for (const auto& entry : fs::directory_iterator(logs)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("serve-")) port = WordAfter(name.substr(0, name.find('.')), "serve-");
  }
  CliProcess upgrade({"upgrade", "--port", port, "--log-dir", logs}, Options());
  EXPECT_EQ(upgrade.Wait(), 1);
  EXPECT_THAT(upgrade.output(), HasSubstr("`lockstep serve` still starts its programs"));
  std::ofstream(pipe) << "go\n";
  EXPECT_TRUE(serve.WaitFor("Ctrl-C stops"));
}

TEST_F(UpgradeProcessTest, ServersWithOneLogFolderAreUpgradedEachForItself) {
  const std::vector<std::string> options = {"--log-dir", home_.path() + "/logs"};
  ASSERT_NO_FATAL_FAILURE(Serve(options));
  const auto upgrade = [&] {
    std::vector<std::string> command = UpgradeCommand();
    command.insert(command.end(), options.begin(), options.end());
    CliProcess process(command, Options());
    EXPECT_EQ(process.Wait(), 0) << process.output();
  };
  const std::set<pid_t> before = Workers();
  {
    CliProcess other({"serve", kModel, "--port", "0", "--device", "cpu", options[0], options[1]},
                     Options());
    ASSERT_TRUE(other.WaitFor("Ctrl-C stops"));
    upgrade();
    EXPECT_THAT(Kept(before), IsEmpty());
    other.Signal(SIGINT);
    EXPECT_EQ(other.Wait(), 0);
  }
  upgrade();
  serve_->Signal(SIGINT);
  EXPECT_EQ(serve_->Wait(), 0);
  for (const auto& entry : fs::directory_iterator(options[1])) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".control")));
  }
}

TEST_F(UpgradeProcessTest, WithoutALinkTheServerRunsAndSaysSo) {
  const std::string logs = home_.path() + "/logs";
  const std::string host = OwnLoopback();
  const std::string port = std::to_string(cli::NextFreePort({.host = host, .port = 20000}));
  fs::create_directories(logs + "/serve-" + host + "-" + port + ".control");
  CliProcess serve(
      {"serve", kModel, "--host", host, "--port", port, "--device", "cpu", "--log-dir", logs},
      Options());
  EXPECT_TRUE(serve.WaitFor("`lockstep upgrade` will not find this server: " + logs));
  EXPECT_TRUE(serve.WaitFor("Ctrl-C stops"));
}

TEST_F(UpgradeProcessTest, WithoutAServerItSaysWhereItLooked) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  ASSERT_TRUE(fs::exists(ControlLink()));
  const auto expect_none = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = UpgradeCommand();
    command.insert(command.end(), more.begin(), more.end());
    CliProcess upgrade(command, Options());
    EXPECT_EQ(upgrade.Wait(), 1);
    EXPECT_THAT(upgrade.output(),
                AllOf(HasSubstr("no `lockstep serve` of this user runs at port " + Port() + " ("),
                      HasSubstr("must be restarted instead")));
  };
  expect_none({"--host", "127.0.0.3"});
  expect_none({"--log-dir", home_.path()});
  serve_->Signal(SIGKILL);
  EXPECT_EQ(serve_->Wait(), 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(ControlLink()));  // it is stale
  expect_none({});
  // What a server that is killed leaves behind.
  fs::remove_all(fs::read_symlink(ControlLink()).parent_path());
}

TEST_F(UpgradeProcessTest, AClientThatSendsAndNeverReadsCannotDisturbTheServer) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::set<pid_t> before = Workers();
  const int loud = cli::ConnectToControl(ControlLink()).value();
  const std::string megabyte(1 << 20, 'x');
  EXPECT_LT(send(loud, megabyte.data(), megabyte.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 1 << 20);
  EXPECT_TRUE(serve_->WaitFor("upgrade: done: every worker was replaced"));
  EXPECT_THAT(Kept(before), IsEmpty());
  ExpectAnswers();
  close(loud);
}

TEST_F(UpgradeProcessTest, WorkersOfTheCpuShareItsCores) {
  CliProcess serve({"serve", kModel, "--port", "0", "--device", "cpu", "--workers", "2"},
                   Options());
  ASSERT_TRUE(serve.WaitFor("on the CPU with 2 workers"));
  ASSERT_TRUE(serve.WaitFor("Ctrl-C stops"));
  const auto children = ChildrenOf(serve.pid());
  ASSERT_EQ(children.count("lockstep-worker"), 2u);
  const uint32_t share = std::max(std::thread::hardware_concurrency() / 2, 1u);
  EXPECT_THAT(CommandLine(children.find("lockstep-worker")->second),
              HasSubstr(" --threads=" + std::to_string(share) + " "));
}

}  // namespace
}  // namespace lockstep::testing
