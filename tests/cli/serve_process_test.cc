// `lockstep serve` over real processes: start, restart, the end of all of them, and what it
// refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/cli/cli_fixture.h"
#include "tests/rigs/child_process.h"
#include "tests/router/serving/test_tenants.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ServeProcessTest : public CliTest {
 protected:
  std::string CompletionCommand() const {
    return "curl --silent --show-error --max-time 30 http://" + address_ +
           "/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": \"Once\", "
           "\"max_tokens\": 4}'";
  }
  void ExpectAnswers() {
    const Outcome outcome = RunShell(CompletionCommand());
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.output, HasSubstr("\"object\":\"text_completion\""));
  }
  // Runs `lockstep` to its end.
  int Run(const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {}) {
    CliProcess::Options options = Options();
    for (const auto& [name, value] : environment) options.environment[name] = value;
    CliProcess process(arguments, options);
    const int code = process.Wait();
    output_ = process.output();
    return code;
  }
  // A program in a folder of its own, and a PATH that begins there.
  std::map<std::string, std::string> PathWith(const std::string& name, const std::string& script) {
    const std::string program = home_.Write(name, "#!/bin/sh\n" + script);
    EXPECT_EQ(chmod(program.c_str(), 0700), 0);
    return {{"PATH", home_.path() + ":/usr/bin:/bin"}};
  }

  std::string output_;
};

TEST_F(ServeProcessTest, AWorkerThatDiesStartsAgainAndCtrlCEndsEverything) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  ExpectAnswers();
  const pid_t router = Router();
  const pid_t worker = Worker();
  ASSERT_GT(worker, 0);
  kill(worker, SIGKILL);
  ASSERT_TRUE(serve_->WaitFor("worker 0 ended with signal 9 (Killed); it starts again in 50ms"));
  ASSERT_TRUE(serve_->WaitFor("worker 0 runs again"));
  ExpectAnswers();
  const pid_t successor = Worker();
  EXPECT_NE(successor, worker);
  serve_->Signal(SIGINT);
  EXPECT_EQ(serve_->Wait(), 0) << serve_->output();
  EXPECT_TRUE(IsGone(router));
  EXPECT_TRUE(IsGone(successor));
  for (const auto& entry : std::filesystem::directory_iterator(home_.path())) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("lockstep-")));
  }
}

TEST_F(ServeProcessTest, ARouterThatDiesStartsAgainAtItsPorts) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::string& screen = serve_->output();
  const size_t metrics = screen.find("http://", screen.find("  metrics "));
  const std::string metrics_url = screen.substr(metrics, screen.find('\n', metrics) - metrics);
  kill(Router(), SIGKILL);
  ASSERT_TRUE(serve_->WaitFor("router ended with signal 9"));
  ASSERT_TRUE(serve_->WaitFor("router runs again"));
  const Outcome outcome = RunShell(CompletionCommand() + " --retry 20 --retry-delay 1");
  EXPECT_THAT(outcome.output, HasSubstr("\"object\":\"text_completion\""));
  EXPECT_THAT(RunShell("curl -s " + metrics_url).output, HasSubstr("lockstep_router_"));
}

TEST_F(ServeProcessTest, RanksMayShareTheModel) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--tensor-parallel", "2"}));
  ExpectAnswers();
  const Outcome command = RunShell("tr '\\0' ' ' < /proc/" + std::to_string(Worker()) + "/cmdline");
  EXPECT_THAT(command.output, HasSubstr(" --tensor-parallel=2 "));
}

TEST_F(ServeProcessTest, NothingOutlivesASupervisorThatIsKilled) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const pid_t router = Router();
  const pid_t worker = Worker();
  const auto renderers = ChildrenOf(router);
  serve_->Signal(SIGKILL);
  EXPECT_EQ(serve_->Wait(), 128 + SIGKILL);
  EXPECT_TRUE(IsGone(router));
  EXPECT_TRUE(IsGone(worker));
  for (const auto& [name, renderer] : renderers) EXPECT_TRUE(IsGone(renderer)) << name;
}

TEST_F(ServeProcessTest, ASecondSignalEndsEverythingAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const pid_t router = Router();
  const pid_t worker = Worker();
  SendSignal(router, SIGSTOP);  // it cannot drain
  serve_->Signal(SIGTERM);
  ASSERT_TRUE(serve_->WaitFor("stopping: "));
  serve_->Signal(SIGTERM);
  EXPECT_EQ(serve_->Wait(), 130);
  EXPECT_TRUE(IsGone(router));
  EXPECT_TRUE(IsGone(worker));
}

TEST_F(ServeProcessTest, TheCommandsOnTheScreenWork) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::string& screen = serve_->output();
  const size_t curl = screen.find("  curl         curl ") + 15;
  const Outcome answer = RunShell(screen.substr(curl, screen.find("\n\n", curl) - curl));
  EXPECT_THAT(answer.output, HasSubstr("\"object\":\"text_completion\""));
  EXPECT_EQ(Run({"top", "--once", "--url", "http://" + address_}), 0);
  EXPECT_THAT(output_, AllOf(HasSubstr("model        tiny-llama\n"), HasSubstr("1 ready\n")));
  EXPECT_EQ(
      Run({"generate", "--router", address_, "--prompt", "Once", "--max-tokens", "2", "--json"}),
      0);
  EXPECT_THAT(output_, HasSubstr("\"token_ids\": ["));
}

TEST_F(ServeProcessTest, WithKeysTheCommandsOnTheScreenShowOne) {
  ASSERT_NO_FATAL_FAILURE(
      Serve({"--", "--tenants", WriteTenants(home_, {{"acme", {"acme-key"}}})}));
  const std::string& screen = serve_->output();
  const size_t begin = screen.find("  curl         curl ") + 15;
  std::string curl = screen.substr(begin, screen.find("\n\n", begin) - begin);
  curl.replace(curl.find("KEY"), 3, "acme-key");
  EXPECT_THAT(RunShell(curl).output, HasSubstr("\"object\":\"text_completion\""));
  EXPECT_THAT(screen, HasSubstr(" --api-key @FILE\n"));
  EXPECT_EQ(Run({"top", "--once", "--url", WordAfter(screen, "lockstep top --url ")}), 0);
  EXPECT_THAT(output_, HasSubstr("model        tiny-llama\n"));
}

TEST_F(ServeProcessTest, ListenersOfTheUserReplaceItsOwn) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--", "--listen", "127.0.0.2:0", "--listen=127.0.0.1:0"}));
  EXPECT_THAT(address_, StartsWith("127.0.0.2:"));
  const Outcome listeners = RunShell("tr '\\0' '\\n' < /proc/" + std::to_string(Router()) +
                                     "/cmdline | grep --count '^--listen'");
  EXPECT_EQ(listeners.output, "2\n");
}

TEST_F(ServeProcessTest, EveryProgramSaysItsVersion) {
  for (const std::string name :
       {"lockstep", "lockstep-router", "lockstep-worker", "lockstep-generate"}) {
    const Outcome outcome = RunShell(LOCKSTEP_BIN_DIR "/" + name + " --version");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.output, AllOf(StartsWith(name + " "), HasSubstr("(commit ")));
  }
}

TEST_F(ServeProcessTest, AWorkerChecksItsFlagsWithoutAModel) {
  const std::string command = LOCKSTEP_BIN_DIR "/lockstep-worker --check-config --model=none ";
  EXPECT_EQ(RunShell(command).exit_code, 0);
  const Outcome wrong = RunShell(command + "--max-slots=65537 2>&1");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("--max-slots: must be in"));
}

TEST_F(ServeProcessTest, ATakenPortIsAnErrorThatNamesAFreeOne) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::string port = address_.substr(address_.find(':') + 1);
  EXPECT_EQ(Run({"serve", kModel, "--port", port}), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("port " + port + " is taken; "),
                             HasSubstr("is free: lockstep serve tests/golden/tiny-llama --port ")));
}

TEST_F(ServeProcessTest, RefusesWhatIsWrongBeforeAnythingStarts) {
  EXPECT_EQ(Run({"serve", "no/such/model", "--port", "0"}), 1);
  EXPECT_THAT(output_, HasSubstr("no/such/model: no such file or folder"));
  EXPECT_EQ(Run({"serve", "tests/golden", "--port", "0"}), 1);
  EXPECT_THAT(output_, HasSubstr("is neither a GGUF file nor a folder with config.json"));
  EXPECT_EQ(Run({"serve", kModel, "--port", "0", "--", "--max-samples=0"}), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("max_samples"), HasSubstr("the router refuses to start"),
                             Not(HasSubstr("starting"))));
  EXPECT_EQ(Run({"serve", "--port", "x"}), 2);
  EXPECT_THAT(output_, AllOf(HasSubstr("--port"), HasSubstr("MODEL is missing")));
  EXPECT_EQ(Run({"serve", kModel, "--speculation", "on"}), 2);
  EXPECT_THAT(output_, AllOf(HasSubstr("--speculation"), HasSubstr("ngram"), HasSubstr("off")));
}

TEST_F(ServeProcessTest, AWorkerThatRefusesToStartEndsTheStartWithItsLog) {
  EXPECT_EQ(Run({"serve", kModel, "--port", "0", "--device", "cpu",
                 "--worker-flag=--max-slots=65537", "--restart-wait", "0.01"}),
            1);
  EXPECT_THAT(output_, AllOf(HasSubstr("ended with exit code 2 and was never ready"),
                             Not(HasSubstr("starts again")),
                             HasSubstr("worker-0.log:\nlockstep-worker: --max-slots: must be in")));
}

TEST_F(ServeProcessTest, OptionsOfWorkersReachThem) {
  for (const char* const option :
       {"--kv-cache-tokens", "--kv-dtype", "--weights", "--activations"}) {
    EXPECT_EQ(Run({"serve", kModel, "--port", "0", "--device", "cpu", option, "nothing",
                   "--restart-wait", "0.01"}),
              1);
    EXPECT_THAT(output_,
                AllOf(HasSubstr("was never ready"), HasSubstr(option + 2), HasSubstr("nothing")));
  }
}

TEST_F(ServeProcessTest, ANameOfHuggingFaceIsDownloaded) {
  const auto path =
      PathWith("hf", "echo \"fetching $*\" >&2\necho \"path=$PWD/tests/golden/nothing\"\n");
  EXPECT_EQ(Run({"serve", "org/name", "--port", "0", "--device", "cpu"}, path), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("fetching download org/name --include"),
                             HasSubstr("should end with the model's folder")));
  const auto good = PathWith("hf", "echo working\necho \"$PWD/tests/golden/tiny-llama\"\n");
  CliProcess::Options options = Options();
  options.environment.insert(good.begin(), good.end());
  CliProcess serve({"serve", "org/name", "--port", "0", "--device", "cpu"}, options);
  ASSERT_TRUE(serve.WaitFor("Ctrl-C stops"));
  const auto models = HttpGet(WordAfter(serve.output(), "\n  gRPC "), "/v1/models");
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_THAT(*models, HasSubstr("\"id\":\"org/name\""));
  const auto failing = PathWith("hf", "echo 'not found' >&2; exit 1\n");
  EXPECT_EQ(Run({"serve", "org/name", "--port", "0", "--device", "cpu"}, failing), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("not found\n"), HasSubstr("failed with exit code 1")));
}

TEST_F(ServeProcessTest, WithoutTheDownloaderANameSaysHowToInstallIt) {
  EXPECT_EQ(Run({"serve", "org/name", "--port", "0", "--device", "cpu"}, {{"PATH", home_.path()}}),
            1);
  EXPECT_THAT(output_, HasSubstr("pip install huggingface_hub"));
}

TEST_F(ServeProcessTest, AGpuThatIsNotHopperIsNamedUnlessItIsHidden) {
  auto path = PathWith("nvidia-smi", "echo 'NVIDIA A100-SXM4-80GB, 8.0, GPU-1'\n");
  path["CUDA_VISIBLE_DEVICES"] = "0";
  EXPECT_EQ(Run({"serve", kModel, "--port", "0", "--device", "cuda"}, path), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("GPU 0 is a NVIDIA A100-SXM4-80GB"),
                             HasSubstr("--device cpu serves on the CPU")));
  path["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_EQ(Run({"serve", kModel, "--port", "0", "--device", "cuda"}, path), 1);
  EXPECT_THAT(output_, HasSubstr("this machine shows no NVIDIA GPU"));
}

TEST_F(ServeProcessTest, LogsOfOthersStayAsTheyAre) {
  const std::string others = home_.Write("notes.log", "mine");
  const std::string before = home_.Write("router.log", "of the last run");
  Serve({"--log-dir", home_.path()});
  EXPECT_TRUE(std::filesystem::exists(others));
  EXPECT_TRUE(std::filesystem::exists(before + ".old"));
  EXPECT_FALSE(std::filesystem::exists(others + ".old"));
}

TEST_F(ServeProcessTest, LogsArePrivate) {
  const mode_t before = umask(0);  // whatever it is
  ASSERT_NO_FATAL_FAILURE(Serve());
  umask(before);
  const std::string logs = WordAfter(serve_->output(), "\n  logs ");
  struct stat status = {};
  ASSERT_EQ(stat(logs.c_str(), &status), 0) << logs;
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
  ASSERT_EQ(stat((logs + "/worker-0.log").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
}

TEST_F(ServeProcessTest, ServersGetNoKeysOfTheUser) {
  setenv("HF_TOKEN", "secret", 1);
  ASSERT_NO_FATAL_FAILURE(Serve());
  unsetenv("HF_TOKEN");
  for (const pid_t server : {Router(), Worker()}) {
    const Outcome environment =
        RunShell("tr '\\0' '\\n' < /proc/" + std::to_string(server) + "/environ");
    EXPECT_THAT(environment.output, AllOf(HasSubstr("HOME="), Not(HasSubstr("secret"))));
  }
}

TEST_F(ServeProcessTest, HelpOfEveryProgramGoesToStdoutAndEndsWell) {
  for (const std::string command :
       {"lockstep --help", "lockstep generate --help", "lockstep serve MODEL --help",
        "lockstep bench --duration 1 -h", "lockstep-router --help", "lockstep-worker --help",
        "lockstep-generate -h"}) {
    const Outcome outcome = RunShell(LOCKSTEP_BIN_DIR "/" + command + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_GT(outcome.output.size(), 200u) << command;
  }
}

TEST_F(ServeProcessTest, TimesNeedNoUnit) {
  for (const std::string time : {"0.2", "0.2s", "200ms"}) {
    const Outcome outcome = RunShell(LOCKSTEP_BIN_DIR
                                     "/lockstep generate --router 127.0.0.1:1 --prompt x "
                                     "--wait-seconds " +
                                     time + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
    EXPECT_EQ(Run({"bench", "--url", "127.0.0.1:1", "--duration", time, "--timeout", time}), 1);
    EXPECT_THAT(output_, Not(HasSubstr("expected")));
  }
}

}  // namespace
}  // namespace lockstep::testing
