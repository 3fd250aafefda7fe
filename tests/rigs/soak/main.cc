// lockstep-router-soak: the router's promises under faults and overload, on real processes. One
// JSON object; exit code 1 if a token was wrong, twice or missing, or anything leaked.
//
//   kill9      one of three workers is killed and restarted every two seconds
//   sigstop    likewise stopped, and resumed once the router has given it up
//   half-open  likewise the connection to it passes nothing any more, and nobody is told
//   takeover   the router is stopped or killed, and a successor takes its workers over
//   overload   half, one, two and ten times the load that a worker with a fixed step time can bear
//   hostile    attackers at once beside honest streams, after a quarter of the time without them
//   each       likewise one attacker after the other, for --seconds each. Prints a table
//   idle       memory of connections and streams that nobody uses
//
// In the hostile modes the exit code is also 1 when an honest request fails, or when the router's
// memory goes beyond its budget: its largest resident size during an attack (VmHWM) minus its
// largest one beside the same honest clients without attackers, which is to be at most the budget
// (--max-connection-memory-mib) and 64 MiB. Ten seconds after the last attack at most 32 MiB more
// than beside honest clients alone may be left.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/synchronization/mutex.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/rigs/soak/processors.h"
#include "tests/rigs/soak/soak.h"

ABSL_FLAG(std::string, mode, "kill9",
          "kill9, sigstop, half-open, takeover, overload, hostile, each or idle");
ABSL_FLAG(double, seconds, 180, "how long; of overload, for the last load; of each, for every one");
ABSL_FLAG(uint64_t, seed, 1, "of prompts, sampling, arrivals and victims");
ABSL_FLAG(uint32_t, streams, 64, "clients that stream at once");
ABSL_FLAG(absl::Duration, step_timeout, absl::Seconds(1), "of the router, for a worker's step");
ABSL_FLAG(std::string, programs, "", "folder of the programs; empty: where this one is");
ABSL_FLAG(std::string, model, "tests/golden/tiny-llama", "a small model with its weights");
ABSL_FLAG(std::vector<std::string>, attacks, {}, "of hostile and each, by name; empty: all");
ABSL_FLAG(std::vector<std::string>, router_flags, {}, "more flags of the router");
ABSL_FLAG(std::string, router_cpus, "", "where the router runs, as in 0-3,8; empty: anywhere");
ABSL_FLAG(std::string, client_cpus, "", "likewise workers and honest clients");
ABSL_FLAG(std::string, attacker_cpus, "", "likewise attackers");
ABSL_FLAG(uint32_t, idle, 10000, "of idle: how many of each kind");

int main(int argc, char** argv) {
  using lockstep::bench::SoakMode;
  // The distribution's Abseil is built with deadlock detection, which costs every lock of gRPC
  // dearly.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::ParseCommandLine(argc, argv);
  spdlog::set_level(spdlog::level::warn);
  const std::optional<SoakMode> mode = lockstep::bench::ParseSoakMode(absl::GetFlag(FLAGS_mode));
  if (!mode.has_value()) {
    std::fprintf(stderr, "--mode=%s: no such mode\n", absl::GetFlag(FLAGS_mode).c_str());
    return 2;
  }
  std::string programs = absl::GetFlag(FLAGS_programs);
  if (programs.empty()) programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const lockstep::bench::SoakOptions options = {
      .mode = *mode,
      .duration = absl::Seconds(absl::GetFlag(FLAGS_seconds)),
      .seed = absl::GetFlag(FLAGS_seed),
      .num_streams = absl::GetFlag(FLAGS_streams),
      .step_timeout = absl::GetFlag(FLAGS_step_timeout),
      .programs = programs,
      .model = absl::GetFlag(FLAGS_model),
      .attacks = absl::GetFlag(FLAGS_attacks),
      .router_flags = absl::GetFlag(FLAGS_router_flags),
      .router_processors = absl::GetFlag(FLAGS_router_cpus),
      .client_processors = absl::GetFlag(FLAGS_client_cpus),
      .attacker_processors = absl::GetFlag(FLAGS_attacker_cpus),
      .num_idle = absl::GetFlag(FLAGS_idle)};
  for (const std::string& list :
       {options.router_processors, options.client_processors, options.attacker_processors}) {
    const absl::Status status =
        list.empty() ? absl::OkStatus() : lockstep::bench::ParseProcessors(list).status();
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", lockstep::Message(status).c_str());
    return 2;
  }
  const absl::StatusOr<lockstep::bench::SoakReport> report = lockstep::bench::RunSoak(options);
  if (!report.ok()) {
    std::fprintf(stderr, "lockstep-router-soak: %s\n", lockstep::Message(report.status()).c_str());
    return 1;
  }
  std::printf("%s\n", lockstep::bench::ToJson(options, *report).c_str());
  // Attackers may slow honest clients down, but every one of their requests finishes.
  const bool hostile = *mode == SoakMode::kHostile || *mode == SoakMode::kEach;
  const bool unhurt = !hostile || (report->clients.num_finished == report->clients.num_requests &&
                                   report->hostile.given_back() && report->hostile.within_budget());
  return report->clients.all_right() && report->leaked == 0 && unhurt ? 0 : 1;
}
