// lockstep-worker: loads a model and executes the steps that a router sends.
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "common/command_line.h"
#include "common/net/admin_server.h"
#include "common/net/listen_check.h"
#include "common/runtime/descriptor_limit.h"
#include "common/runtime/exit_code.h"
#include "common/runtime/logging.h"
#include "common/runtime/shutdown_signal.h"
#include "common/status.h"
#include "common/version.h"
#include "worker/backend.h"
#include "worker/service/worker_metrics.h"
#include "worker/service/worker_server.h"
#include "worker/worker_config.h"
#include "worker/worker_flags.h"

namespace lockstep::worker {
namespace {

constexpr std::string_view kUsage =
    "lockstep-worker --model PATH [--listen HOST:PORT] [--admin-listen HOST:PORT]";

// A model may take minutes to load, so occupied addresses are reported before.
absl::Status CheckAddressesAreFree(const WorkerConfig& config) {
  LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckCanListen(config.listen), "--listen"));
  return Annotate(CheckCanListen(config.admin_listen), "--admin-listen");
}

// New at every start; 0 means "any" in claims.
uint64_t MakeIncarnation() {
  std::random_device entropy;
  const uint64_t bits = uint64_t{entropy()} << 32 | entropy();
  return bits == 0 ? 1 : bits;
}

// Logs each stage at its start, every tenth of the way, and its end.
std::function<void(std::string_view, double)> LogProgress() {
  return [last = std::string(), last_tenth = -1](std::string_view stage, double fraction) mutable {
    const int tenth = static_cast<int>(fraction * 10);
    if (stage == last && tenth == last_tenth) return;
    last = stage;
    last_tenth = tenth;
    spdlog::info("loading {}: {} %", stage, tenth * 10);
  };
}

absl::Status Run(const WorkerConfig& config) {
  LOCKSTEP_RETURN_IF_ERROR(CheckAddressesAreFree(config));
  const ShutdownSignal shutdown_signal;
  spdlog::info("lockstep-worker {} ({}), model {}", Version(), GitCommit(), config.model);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                            OpenBackend(config, LogProgress()));
  if (shutdown_signal.received()) return absl::OkStatus();

  const auto registry = std::make_shared<prometheus::Registry>();
  WorkerMetrics metrics(*registry, backend->info());
  const uint64_t incarnation = MakeIncarnation();
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<StepRunner> runner, backend->MakeRunner(incarnation));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerServer> server,
                            WorkerServer::Start(std::move(runner), backend->info(), incarnation,
                                                metrics, config.server_options()));
  std::atomic<bool> draining = false;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::unique_ptr<AdminServer> admin,
      AdminServer::Start(config.admin_listen, {.metrics = registry, .health = [&draining] {
                                                 return draining ? HealthReport{false, "draining"}
                                                                 : HealthReport{true, "serving"};
                                               }}));
  std::printf("LISTENING grpc=%s admin=%s\n", server->endpoint().c_str(),
              FormatAddress(admin->address()).c_str());
  std::fflush(stdout);

  shutdown_signal.Wait();
  draining = true;
  spdlog::info("draining for at most {}", absl::FormatDuration(config.drain_grace));
  if (!server->Shutdown(config.drain_grace)) spdlog::warn("the router's lease was cut off");
  return absl::OkStatus();
}

absl::Status ConfigureAndRun(int argc, char** argv) {
  WorkerConfig config;
  LogConfig log;
  FlagTable flags = WorkerFlags(config);
  flags.push_back(LogFlags(log));
  const absl::Status usage = ParseCommandLine(argc, argv, kUsage, flags);
  LOCKSTEP_RETURN_IF_ERROR(JoinErrors(usage, config.Validate()));
  if (config.check_only) return absl::OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(InitLogging(log.level, log.format));
  return Run(config);
}

}  // namespace
}  // namespace lockstep::worker

int main(int argc, char** argv) {
  lockstep::RaiseDescriptorLimit();
  lockstep::IgnoreBrokenPipes();
  const absl::Status status = lockstep::worker::ConfigureAndRun(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lockstep-worker: %s\n", lockstep::Message(status).c_str());
  return lockstep::ExitCodeOf(status);
}
