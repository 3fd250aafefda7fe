// lockstep-router: takes requests, schedules them, and drives workers.
#include <fmt/ranges.h>
#include <google/protobuf/stubs/logging.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "common/command_line.h"
#include "common/runtime/exit_code.h"
#include "common/runtime/heap.h"
#include "common/runtime/logging.h"
#include "common/runtime/shutdown_signal.h"
#include "common/status.h"
#include "common/version.h"
#include "router/router_config.h"
#include "router/router_flags.h"
#include "router/router_process.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kUsage =
    "lockstep-router --model PATH [--worker HOST:PORT,...] [--listen HOST:PORT]... "
    "[--admin-listen HOST:PORT]";

absl::Status Run(RouterConfig config) {
  LOCKSTEP_RETURN_IF_ERROR(CheckAddressesAreFree(config));
  const ShutdownSignal shutdown_signal;
  spdlog::info("lockstep-router {} ({}), model {}, workers {}", Version(), GitCommit(),
               config.model, fmt::join(config.workers, ", "));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<RouterProcess> process,
                            RouterProcess::Start(std::move(config)));
  std::printf("%s\n", process->ListeningLine().c_str());
  std::fflush(stdout);
  shutdown_signal.Wait();
  process->Drain();
  return absl::OkStatus();
}

absl::Status ConfigureAndRun(int argc, char** argv) {
  RouterConfig config;
  LogConfig log;
  FlagTable flags = RouterFlags(config);
  flags.push_back(LogFlags(log));
  const absl::Status usage = ParseCommandLine(argc, argv, kUsage, flags);
  LOCKSTEP_RETURN_IF_ERROR(JoinErrors(usage, config.Validate()));
  LOCKSTEP_RETURN_IF_ERROR(InitLogging(log.level, log.format));
  return config.check_only ? absl::OkStatus() : Run(std::move(config));
}

}  // namespace
}  // namespace lockstep::router

int main(int argc, char** argv) {
  lockstep::IgnoreBrokenPipes();
  lockstep::ReturnLargeBlocks();
  // Protobuf would print errors in messages of clients. Clients get them in their statuses.
  google::protobuf::SetLogHandler(nullptr);
  const absl::Status status = lockstep::router::ConfigureAndRun(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "lockstep-router: %s\n", lockstep::Message(status).c_str());
  return lockstep::ExitCodeOf(status);
}
