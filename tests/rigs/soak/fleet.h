#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/rigs/child_process.h"
#include "tests/rigs/soak/link_proxy.h"
#include "tests/rigs/soak/soak.h"

namespace lockstep::bench {

// The worker processes of a soak, with proxies in front of them if asked for, and routers for them.
class SoakFleet {
 public:
  static constexpr size_t kNumWorkers = 3;

  static absl::StatusOr<std::unique_ptr<SoakFleet>> Start(const SoakOptions& options, bool proxied);

  // Returns once it has attached every worker.
  absl::StatusOr<testing::ChildProcess> StartRouter(const std::vector<std::string>& flags) const;

  const testing::ChildProcess& worker(size_t i) const { return workers_[i]; }
  LinkProxy& proxy(size_t i) { return *proxies_[i]; }
  // After it was killed: at its address. Returns once it listens.
  absl::Status RestartWorker(size_t i);

 private:
  explicit SoakFleet(const SoakOptions& options) : options_(options) {}

  absl::StatusOr<testing::ChildProcess> LaunchWorker(const std::string& listen) const;

  const SoakOptions& options_;
  std::vector<testing::ChildProcess> workers_;
  std::vector<std::unique_ptr<LinkProxy>> proxies_;  // none, or one for each worker
};

// A router for `workers`, addresses separated by commas; returns once it has attached
// `num_workers`.
absl::StatusOr<testing::ChildProcess> LaunchRouter(const SoakOptions& options,
                                                   const std::string& workers, size_t num_workers,
                                                   const std::vector<std::string>& flags);

}  // namespace lockstep::bench
