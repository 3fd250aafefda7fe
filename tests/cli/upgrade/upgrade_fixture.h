#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/cli/cli_fixture.h"
#include "tests/cli/upgrade/asker.h"
#include "tests/rigs/child_process.h"

namespace lockstep::testing {

namespace fs = std::filesystem;

inline constexpr char kBin[] = LOCKSTEP_BIN_DIR "/";
// Tokens, all of one answer. The tiny model has a context of 256.
inline constexpr char kLength[] = "200";

// The words of a running program, a space behind each.
inline std::string CommandLine(pid_t pid) {
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
    for (Asker& asker : askers) EXPECT_THAT(asker.Finish(), ::testing::IsEmpty());
    output_ = upgrade.output();
  }

  const std::string folder_ = home_.path() + "/bin";
  std::string output_;
};

}  // namespace lockstep::testing
