// `lockstep upgrade` over real processes: workers are replaced under load, and every way in which
// that can fail leaves a server that answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "cli/serve/port.h"
#include "cli/serve/upgrade/control_socket.h"
#include "tests/cli/cli_fixture.h"
#include "tests/rigs/child_process.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kBin[] = LOCKSTEP_BIN_DIR "/";
// Tokens, all of one answer. The tiny model has a context of 256.
constexpr char kLength[] = "200";

// What a client makes of a stream: the tokens over gRPC, the text over HTTP. Empty if it failed.
std::string TokensOf(const Outcome& outcome) {
  const size_t start = outcome.output.find("\"token_ids\": [");
  if (outcome.exit_code != 0 || start == std::string::npos) return {};
  return outcome.output.substr(start, outcome.output.find(']', start) - start);
}
std::string TextOf(const Outcome& outcome) {
  constexpr std::string_view kText = "\"text\":\"";
  std::string text;
  for (size_t at = outcome.output.find(kText); at != std::string::npos;
       at = outcome.output.find(kText, at)) {
    at += kText.size();
    const size_t end = outcome.output.find("\",\"", at);
    text += outcome.output.substr(at, end - at);
  }
  return outcome.output.ends_with("data: [DONE]\n\n") ? text : "";
}

// Asks for the same again and again, from a thread of its own, until it is told to finish.
class Asker {
 public:
  Asker(std::string command, std::string (*read)(const Outcome&))
      : command_(std::move(command)), read_(read), expected_(read(RunShell(command_))) {
    EXPECT_FALSE(expected_.empty()) << command_;
  }
  void Start() {
    thread_ = std::thread([this] {
      do {
        const Outcome outcome = RunShell(command_);
        if (read_(outcome) != expected_) wrong_.push_back(outcome.output);
      } while (!finishes_);
    });
  }
  // No further request after the one that runs.
  void FinishSoon() { finishes_ = true; }
  // What differed from the first answer.
  std::vector<std::string> Finish() {
    FinishSoon();
    thread_.join();
    return wrong_;
  }

 private:
  const std::string command_;
  std::string (*const read_)(const Outcome&);
  const std::string expected_;
  std::atomic<bool> finishes_ = false;
  std::vector<std::string> wrong_;  // of the thread, until it has ended
  std::thread thread_;
};

// The words of a running program, a space behind each.
std::string CommandLine(pid_t pid) {
  return RunShell("tr '\\0' ' ' < /proc/" + std::to_string(pid) + "/cmdline").output;
}

class UpgradeProcessTest : public CliTest {
 protected:
  // `lockstep` in a folder of its own, where the worker can be replaced.
  UpgradeProcessTest() {
    fs::create_directory(folder_);
    for (const auto& entry : fs::directory_iterator(kBin)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("lockstep-")) fs::create_symlink(entry.path(), folder_ + "/" + name);
    }
    // A program finds its folder through /proc, which follows symbolic links.
    program_ = folder_ + "/lockstep";
    std::error_code other_file_system;
    fs::create_hard_link(std::string(kBin) + "lockstep", program_, other_file_system);
    if (other_file_system) fs::copy_file(std::string(kBin) + "lockstep", program_);
  }

  // The next worker is this script. "exec $WORKER" in it starts the real one.
  void ReplaceWorker(const std::string& script) {
    const std::string fresh = home_.Write(
        "fresh", "#!/bin/sh\nWORKER=" + std::string(kBin) + "lockstep-worker\n" + script);
    EXPECT_EQ(chmod(fresh.c_str(), 0700), 0);
    fs::rename(fresh, folder_ + "/lockstep-worker");
  }
  static std::string UnlessChecked(const std::string& script) {
    return "case \"$*\" in *--check-config*) exec $WORKER \"$@\";; esac\n" + script;
  }

  // The script for one of the workers only; the others are real.
  static std::string OfWorker(int number, const std::string& script) {
    return UnlessChecked("case \"$*\" in *worker-" + std::to_string(number) +
                         ".sock*) ;; *) exec $WORKER \"$@\";; esac\n" + script);
  }
  pid_t WorkerNumber(int number) const {
    const std::string socket = "/worker-" + std::to_string(number) + ".sock ";
    for (const pid_t worker : Workers()) {
      if (CommandLine(worker).find(socket) != std::string::npos) return worker;
    }
    return -1;
  }
  std::string ControlLink() const {
    return home_.path() + "/cache/lockstep/logs/" + Port() + "/serve-" + Port() + ".control";
  }

  std::string Port() const { return address_.substr(address_.rfind(':') + 1); }
  std::vector<std::string> UpgradeCommand() const { return {"upgrade", "--port", Port()}; }
  // Runs `lockstep upgrade` to its end.
  int Upgrade() {
    CliProcess upgrade(UpgradeCommand(), Options());
    const int code = upgrade.Wait();
    output_ = upgrade.output();
    return code;
  }
  std::set<pid_t> Workers() const {
    std::set<pid_t> workers;
    const auto children = ChildrenOf(serve_->pid());
    const auto [first, last] = children.equal_range("lockstep-worker");
    for (auto it = first; it != last; ++it) workers.insert(it->second);
    return workers;
  }
  void SignalWorkers(int signal_number) const {
    for (const pid_t worker : Workers()) SendSignal(worker, signal_number);
  }
  std::set<pid_t> Kept(const std::set<pid_t>& before) const {
    std::set<pid_t> kept;
    for (const pid_t worker : Workers()) {
      if (before.contains(worker)) kept.insert(worker);
    }
    return kept;
  }

  std::string GenerateCommand(const std::string& sampling) const {
    return std::string(kBin) + "lockstep-generate --router " + address_ +
           " --token-ids 3,10,17,24,31 --ignore-eos --json --max-tokens " + kLength + " " +
           sampling + " 2>/dev/null";
  }
  std::string CompletionCommand() const {
    return "curl --silent --no-buffer --fail http://" + address_ +
           "/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": [3, 10, 17, 24], "
           "\"stream\": true, \"ignore_eos\": true, \"temperature\": 0, \"max_tokens\": " +
           kLength + "}'";
  }
  void ExpectAnswers() const {
    EXPECT_FALSE(TokensOf(RunShell(GenerateCommand("--temperature 0"))).empty());
  }
  // How many workers have running sequences, by the router.
  int NumBusy() const {
    const std::string name = "\nlockstep_router_worker_running_sequences{";
    const std::string text = HttpGet(metrics_address_, "/metrics").value_or("");
    int num_busy = 0;
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const std::string_view line = std::string_view(text).substr(0, text.find('\n', at + 1));
      if (!line.ends_with(" 0")) ++num_busy;
    }
    return num_busy;
  }
  // Stops all of them at a moment at which all of them serve.
  void StopBusyWorkers() const {
    constexpr int kNumTries = 1000;
    for (int i = 0; i < kNumTries; ++i) {
      SignalWorkers(SIGSTOP);
      if (NumBusy() == static_cast<int>(Workers().size())) return;
      SignalWorkers(SIGCONT);
    }
    ADD_FAILURE() << "the workers never served at once";
  }
  // Upgrades while clients stream. No answer may differ from the answer before.
  void ExpectUpgradeUnderLoad() {
    std::deque<Asker> askers;
    askers.emplace_back(GenerateCommand("--temperature 0"), TokensOf);
    askers.emplace_back(GenerateCommand("--temperature 1 --seed 7"), TokensOf);
    askers.emplace_back(GenerateCommand("--temperature 0.8 --top-p 0.9 --seed 8"), TokensOf);
    askers.emplace_back(CompletionCommand(), TextOf);
    for (Asker& asker : askers) asker.Start();
    StopBusyWorkers();
    CliProcess upgrade(UpgradeCommand(), Options());
    EXPECT_TRUE(upgrade.WaitFor(" drains"));
    SignalWorkers(SIGCONT);
    EXPECT_EQ(upgrade.Wait(), 0) << upgrade.output();
    for (Asker& asker : askers) EXPECT_THAT(asker.Finish(), IsEmpty());
    output_ = upgrade.output();
  }

  const std::string folder_ = home_.path() + "/bin";
  std::string output_;
};

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
