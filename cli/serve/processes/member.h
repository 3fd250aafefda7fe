#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/serve/processes/log_follower.h"
#include "cli/serve/processes/restart_policy.h"
#include "common/instant.h"

namespace lockstep::cli {

struct MemberSpec {
  std::string name;  // "worker 0", in messages to people
  std::vector<std::string> arguments;
  std::string log_path;
  std::string address = {};  // of a worker, as the router knows it
};

// One program that is kept running: its process, if there is one, its log, and the time of its next
// start. Not thread-safe.
class Member {
 public:
  Member(MemberSpec spec, const RestartLimits& limits)
      : spec_(std::move(spec)), policy_(limits), log_(spec_.log_path) {}
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  // Ends the process with SIGKILL and waits for it.
  ~Member();

  // Time of the next start. InfiniteFuture while the program runs, or if it must not run.
  Instant due() const { return due_; }
  void StartAt(Instant time) { due_ = time; }

  absl::Status Start(Instant now);
  // Asks the program to drain if it listens. Kills it if it still loads, because it would react to
  // the signal only after loading. Signals it once, because a second signal cuts a drain off.
  void End();
  void Kill() const;

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  bool was_ready() const { return policy_.was_ready(); }
  // True from its line "LISTENING grpc=... admin=..." until it ends.
  bool listening() const { return !grpc_address_.empty(); }
  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& admin_address() const { return admin_address_; }
  int stdout_fd() const { return stdout_fd_; }  // -1: it has ended or closed it
  const MemberSpec& spec() const { return spec_; }

  // Reads the program's new output. True when its line LISTENING has just come.
  bool ReadOutput();
  // Reads the program's new log lines.
  void ReadLog();
  // The end of its log since its last start.
  std::string LastLogLines(size_t num_lines) const { return log_.LastLines(num_lines); }
  const std::optional<LoadingProgress>& progress() const { return progress_; }

  struct Ended {
    int wait_status = 0;
    bool listened = false;
    RestartPolicy::Verdict verdict;  // no wait after End, which does not count
  };
  // Returns how the process ended, once. None if it runs or never started.
  std::optional<Ended> Reap(Instant now);

 private:
  void Forget();

  MemberSpec spec_;
  RestartPolicy policy_;
  LogFollower log_;
  Instant due_ = Instant::InfiniteFuture();
  pid_t pid_ = -1;
  bool was_asked_to_end_ = false;
  int stdout_fd_ = -1;
  std::string output_;  // of stdout, until the line is complete
  std::string grpc_address_;
  std::string admin_address_;
  std::optional<LoadingProgress> progress_;
};

// The value of " name=" in the line LISTENING; empty if there is none. Pure.
std::string ListeningField(const std::string& line, const std::string& name);

}  // namespace lockstep::cli
