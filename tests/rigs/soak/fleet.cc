#include "tests/rigs/soak/fleet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/soak/router_probe.h"

namespace lockstep::bench {

using testing::ChildProcess;

absl::StatusOr<ChildProcess> LaunchRouter(const SoakOptions& options, const std::string& workers,
                                          size_t num_workers,
                                          const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {options.programs + "/lockstep-router",
                                        "--model=" + options.model,
                                        fmt::format("--model_id={}", kModelId),
                                        "--worker=" + workers,
                                        "--listen=127.0.0.1:0",
                                        "--admin_listen=127.0.0.1:0",
                                        "--log_level=error"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  LOCKSTEP_ASSIGN_OR_RETURN(ChildProcess router, ChildProcess::Start(arguments));
  LOCKSTEP_RETURN_IF_ERROR(WaitUntil("a router attaches its workers", absl::Seconds(60), [&] {
    const absl::StatusOr<RouterGauges> gauges = ReadGauges(router);
    return gauges.ok() && gauges->attached_workers == static_cast<double>(num_workers);
  }));
  return router;
}

absl::StatusOr<std::unique_ptr<SoakFleet>> SoakFleet::Start(const SoakOptions& options,
                                                            bool proxied) {
  std::unique_ptr<SoakFleet> fleet(new SoakFleet(options));
  for (size_t i = 0; i < kNumWorkers; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(ChildProcess worker,
                              fleet->LaunchWorker(testing::OwnLoopback() + ":0"));
    fleet->workers_.push_back(std::move(worker));
    if (!proxied) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<LinkProxy> proxy,
                              LinkProxy::Start(fleet->workers_.back().grpc_address()));
    fleet->proxies_.push_back(std::move(proxy));
  }
  return fleet;
}

absl::StatusOr<ChildProcess> SoakFleet::StartRouter(const std::vector<std::string>& flags) const {
  std::vector<std::string> addresses;
  for (size_t i = 0; i < kNumWorkers; ++i) {
    addresses.push_back(proxies_.empty() ? workers_[i].grpc_address() : proxies_[i]->address());
  }
  std::vector<std::string> all = {
      "--step_timeout=" + absl::FormatDuration(options_.step_timeout),
      // Nothing is refused for want of a worker: whatever is asked counts.
      "--no_worker_grace=60s"};
  all.insert(all.end(), flags.begin(), flags.end());
  return LaunchRouter(options_, fmt::format("{}", fmt::join(addresses, ",")), kNumWorkers, all);
}

absl::StatusOr<ChildProcess> SoakFleet::LaunchWorker(const std::string& listen) const {
  return ChildProcess::Start({options_.programs + "/lockstep-worker", "--model=" + options_.model,
                              "--device=cpu", "--listen=" + listen, "--admin_listen=127.0.0.1:0",
                              "--threads=1", "--log_level=error"});
}

absl::Status SoakFleet::RestartWorker(size_t i) {
  // A connection of somebody else's may have the port for a moment.
  constexpr int kNumAttempts = 50;
  absl::Status problem;
  for (int attempt = 0; attempt < kNumAttempts; ++attempt) {
    absl::StatusOr<ChildProcess> worker = LaunchWorker(workers_[i].grpc_address());
    problem = worker.status();
    if (!worker.ok()) continue;
    workers_[i] = *std::move(worker);
    return absl::OkStatus();
  }
  return problem;
}

}  // namespace lockstep::bench
