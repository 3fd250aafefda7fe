#pragma once

#include <absl/time/time.h>
#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/instant.h"

namespace lockstep::testing {

// `lockstep` as a child of the test, with a home folder of its own, behind a pipe or a terminal.
// Killed, and waited for, when the object goes.
class CliProcess {
 public:
  struct Options {
    std::map<std::string, std::string> environment;  // set besides the test's own
    bool terminal = false;                           // stdin, stdout and stderr are one
    std::string program = {};                        // empty: the build's `lockstep`
  };
  CliProcess(const std::vector<std::string>& arguments, const Options& options);
  CliProcess(const CliProcess&) = delete;
  CliProcess& operator=(const CliProcess&) = delete;
  ~CliProcess();

  // Until `text` was printed after what the last call found. Fails the test after a minute, or when
  // the program ends before; false then.
  bool WaitFor(std::string_view text);
  // Types into its terminal.
  void Type(std::string_view text) const;
  void Signal(int signal_number) const;
  // Until it ends: its exit code, 128 + n after signal n; -1 after a minute.
  int Wait();

  pid_t pid() const { return pid_; }
  const std::string& output() const { return output_; }  // of stdout and stderr, as far as read

 private:
  bool ReadMore(Instant deadline);

  pid_t pid_ = -1;
  int descriptor_ = -1;
  std::string output_;
  size_t found_up_to_ = 0;
};

// Processes whose parent is `pid`, by the name of their program.
std::multimap<std::string, pid_t> ChildrenOf(pid_t pid);
// Waits until the process is gone, for at most a minute.
bool IsGone(pid_t pid);
// The word behind `label` in a text: "gRPC         127.0.0.1:1".
std::string WordAfter(const std::string& text, const std::string& label);

}  // namespace lockstep::testing
