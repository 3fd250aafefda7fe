#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/caged/python_program.h"

namespace lockstep {

// Wall time of a job may be this many times as long as its processor time.
inline constexpr int kWallFactor = 5;

// Why a caged process ended.
enum class CagedEnd {
  kTime,    // it used too much time
  kMemory,  // it used too much memory
  kCrash,   // its job made it fail in another way
  kGone,    // not the job's fault: it retired, or something else ended it
};

// A child process that runs a Python program in a cage. It dies with this object, and with the
// thread that started it. Used by one thread at a time.
class CagedProcess {
 public:
  // Returns before the program is ready.
  static absl::StatusOr<std::unique_ptr<CagedProcess>> Start(const PythonProgram& program,
                                                             const CagedArguments& arguments);
  CagedProcess(const CagedProcess&) = delete;
  CagedProcess& operator=(const CagedProcess&) = delete;
  ~CagedProcess();

  // Sends a frame within `limit`. Errors are ignored here, because the answer will be missing then
  // too. A short frame fits the socket's buffer.
  void Send(std::string_view frame, absl::Duration limit);

  struct Reply {
    std::string payload;          // bytes of the child, not checked
    std::optional<CagedEnd> end;  // set: the process is gone
    // kTime, although it used less processor time than it may: the machine is busy.
    bool stalled = false;
  };
  // Sends `frame` unless it is empty, and waits for one frame of at most `max_bytes`. `limit` is
  // processor time.
  Reply Exchange(std::string_view frame, absl::Duration limit, size_t max_bytes);
  // Ends a process that sent bytes that are no answer.
  CagedEnd Distrust();

  pid_t pid() const { return pid_; }
  // How it ended; 0 if it still runs, or if a signal ended it.
  int exit_code() const { return exit_code_; }

 private:
  CagedProcess(pid_t pid, int socket);

  absl::Duration UsedTime() const;
  // Ends the process, if it still runs, and says how it ended.
  CagedEnd Reap();

  pid_t pid_;  // -1: gone
  int socket_;
  clockid_t cpu_clock_{};
  bool has_answered_ = false;
  int exit_code_ = 0;
};

// Why a process ended that is kGone. `library`: what its Python may lack, and how to get it.
std::string WhyGone(int exit_code, const PythonProgram& program, std::string_view library);

}  // namespace lockstep
