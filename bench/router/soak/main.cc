// lockstep-router-soak: the router's promises under faults and overload, on real processes. One
// JSON object; exit code 1 if a token was wrong, twice or missing, or anything leaked.
//
//   kill9      one of three workers is killed and restarted every two seconds
//   sigstop    likewise stopped, and resumed once the router has given it up
//   half-open  likewise the connection to it passes nothing any more, and nobody is told
//   takeover   the router is stopped or killed, and a successor takes its workers over
//   overload   half, one, two and ten times the load that a worker with a fixed step time can bear
//   hostile    all attackers at once beside honest streams, after a quarter of the time without
//   them
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/synchronization/mutex.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "bench/router/soak/soak.h"
#include "common/status.h"

ABSL_FLAG(std::string, mode, "kill9", "kill9, sigstop, half-open, takeover, overload or hostile");
ABSL_FLAG(double, seconds, 180, "how long; of overload, for the last load");
ABSL_FLAG(uint64_t, seed, 1, "of prompts, sampling, arrivals and victims");
ABSL_FLAG(uint32_t, streams, 64, "clients that stream at once");
ABSL_FLAG(absl::Duration, step_timeout, absl::Seconds(1), "of the router, for a worker's step");
ABSL_FLAG(std::string, programs, "", "folder of the programs; empty: where this one is");
ABSL_FLAG(std::string, model, "tests/golden/tiny-llama", "a small model with its weights");

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
      .model = absl::GetFlag(FLAGS_model)};
  const absl::StatusOr<lockstep::bench::SoakReport> report = lockstep::bench::RunSoak(options);
  if (!report.ok()) {
    std::fprintf(stderr, "lockstep-router-soak: %s\n", lockstep::Message(report.status()).c_str());
    return 1;
  }
  std::printf("%s\n", lockstep::bench::ToJson(options, *report).c_str());
  // Attackers may slow honest clients down, but every one of their requests finishes.
  const bool unhurt = *mode != SoakMode::kHostile ||
                      (report->clients.num_finished == report->clients.num_requests &&
                       report->hostile.given_back());
  return report->clients.all_right() && report->leaked == 0 && unhurt ? 0 : 1;
}
