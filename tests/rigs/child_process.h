#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::testing {

// A loopback address that belongs to this process. Other tests take ports of 127.0.0.1, and one
// might take that of a server which is down for a moment and will listen there again.
std::string OwnLoopback();

// A program of ours as a child of the test. Killed, and waited for, when the object goes.
class ChildProcess {
 public:
  // Starts `arguments[0]` and waits for its LISTENING line. Its log goes to the test's stderr.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& arguments);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  void Signal(int signal_number) const;
  // Exit code; 128 + n when signal n ended it; -1 when it still runs after `timeout` (it is then
  // killed).
  int Wait(absl::Duration timeout);

  pid_t pid() const { return pid_; }
  // Resident memory; 0 when it is gone.
  uint64_t ResidentKib() const;
  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& admin_address() const { return admin_address_; }
  // Further listeners of a router, separated by commas.
  const std::string& http_address() const { return http_address_; }

 private:
  ChildProcess() = default;
  absl::Status ReadListeningLine();

  pid_t pid_ = -1;
  int stdout_fd_ = -1;
  std::string grpc_address_;
  std::string admin_address_;
  std::string http_address_;
};

// kill(2). After SIGSTOP no thread of the process runs any more when this returns: the kernel stops
// them one after the other, each when it is next scheduled. After SIGKILL a child has ended, so its
// ports are free.
void SendSignal(pid_t pid, int signal_number);

// GET http://address/path; the body, or an error unless the answer is 200.
absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path);

// Value of one series in the text of /metrics, as name{label="x"}; NOT_FOUND when it is not there.
absl::StatusOr<double> MetricValue(const std::string& metrics_text, const std::string& series);

// What a command of the shell came to.
struct Outcome {
  int exit_code = -1;  // -1: it did not start, or a signal ended it
  std::string output;  // of both streams
};
Outcome RunShell(const std::string& command);

}  // namespace lockstep::testing
