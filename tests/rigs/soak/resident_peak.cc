#include "tests/rigs/soak/resident_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stop_token>
#include <string>

#include "tests/rigs/instant_worker/pacing.h"

namespace lockstep::bench {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(5);

// proc(5), clear_refs.
bool ResetHighWaterMark(pid_t pid) {
  std::ofstream file(fmt::format("/proc/{}/clear_refs", pid));
  return static_cast<bool>(file << "5" << std::flush);
}

uint64_t HighWaterMarkKib(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kName = "VmHWM:";
    if (line.starts_with(kName)) return std::stoull(line.substr(kName.size()));
  }
  return 0;
}

}  // namespace

ResidentPeak::ResidentPeak(const testing::ChildProcess& process)
    : process_(process),
      is_reset_(ResetHighWaterMark(process.pid())),
      thread_("rss", [this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          peak_kib_ = std::max(peak_kib_, process_.ResidentKib());
          PaceFor(kBetweenLooks);
        }
      }) {}

uint64_t ResidentPeak::StopAndTellKib() {
  thread_.request_stop();
  thread_.join();
  return is_reset_ ? std::max(peak_kib_, HighWaterMarkKib(process_.pid())) : peak_kib_;
}

}  // namespace lockstep::bench
