#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/rigs/child_process.h"

namespace lockstep::bench {

// What a process has used so far.
struct CpuTime {
  double seconds = 0.0;                             // user and system
  std::map<std::string, double> seconds_by_thread;  // by name without number; those that live
  uint64_t num_switches = 0;                        // threads that went to sleep
};

// The real router as a child of this process.
class RouterProcess {
 public:
  struct Options {
    std::string program;
    std::string model;
    std::string worker;                   // its address
    std::vector<std::string> more_flags;  // as on a command line
  };
  static absl::StatusOr<std::unique_ptr<RouterProcess>> Start(const Options& options);

  std::string grpc_address() const { return child_.grpc_address(); }
  std::string http_address() const { return child_.http_address(); }
  // Waits until it takes requests.
  absl::Status WaitUntilReady();

  absl::StatusOr<CpuTime> ReadCpuTime() const;
  absl::StatusOr<uint64_t> ReadResidentBytes() const;
  // A series of its /metrics without other labels than the model's.
  absl::StatusOr<double> ReadMetric(const std::string& name) const;

 private:
  explicit RouterProcess(testing::ChildProcess child) : child_(std::move(child)) {}

  testing::ChildProcess child_;
};

}  // namespace lockstep::bench
