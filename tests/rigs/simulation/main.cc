// lockstep-router-simulate: the router with simulated workers and clients, on a virtual clock. One
// JSON object a line for each setting and placement policy; settings.h describes the settings.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/check.h"
#include "tests/rigs/simulation/settings.h"

ABSL_FLAG(std::vector<std::string>, settings,
          std::vector<std::string>({"assistants", "chat", "hot"}),
          "assistants, chat, hot, overloaded, faults, fleet, fairness, "
          "fairness-alone");
ABSL_FLAG(std::vector<std::string>, placements,
          std::vector<std::string>({"prefix", "least-loaded", "round-robin"}),
          "as of lockstep-router --placement");
ABSL_FLAG(uint32_t, workers, 0, "instead of the setting's number; 0: that");
ABSL_FLAG(std::vector<std::string>, routers, std::vector<std::string>({"1"}),
          "how many routers share the workers, as lockstep-router --shard does; one run for each");
ABSL_FLAG(std::string, spreading, "random",
          "of requests over routers: random, or conversation (all of one go to one router)");
ABSL_FLAG(uint32_t, blocks, 0, "KV blocks of a worker, instead of the setting's; 0: that");
ABSL_FLAG(uint32_t, window, 0, "tokens of the window of a second KV group; 0: one group");
ABSL_FLAG(uint32_t, window_blocks, lockstep::bench::WorkerOptions().window_blocks,
          "KV blocks of a worker in that group");
ABSL_FLAG(uint32_t, requests, 0, "instead of the setting's number, of each tenant; 0: that");
ABSL_FLAG(double, max_imbalance, lockstep::router::PlacementConfig().max_imbalance,
          "as of lockstep-router --max-imbalance");
ABSL_FLAG(uint32_t, drafts, 0,
          "tokens that a worker drafts for each row; it keeps a random number of them");
ABSL_FLAG(double, draft_chance, lockstep::bench::WorkerOptions().draft_chance,
          "with --drafts: that a draft is right; below 0: any number of a row's drafts is");
ABSL_FLAG(bool, adaptive_drafts, true, "with --drafts: the router drafts as many tokens as pay");
ABSL_FLAG(uint64_t, seed, 0, "of traces and faults, instead of the setting's; 0: that");

namespace lockstep::bench {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double MaxResidentMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

SimulationOptions OptionsOf(const std::string& setting, const std::string& placement,
                            uint32_t num_routers) {
  std::optional<SimulationOptions> options = FindSetting(setting);
  LOCKSTEP_CHECK(options.has_value(), "setting '{}': expected one of {}", setting,
                 fmt::join(SettingNames(), ", "));
  const auto policy = router::ParsePlacementPolicy(placement);
  LOCKSTEP_CHECK(policy.has_value(), "placement '{}': expected prefix, least-loaded or round-robin",
                 placement);
  options->placement.policy = *policy;
  options->placement.max_imbalance = absl::GetFlag(FLAGS_max_imbalance);
  options->num_routers = num_routers;
  const std::string spreading = absl::GetFlag(FLAGS_spreading);
  LOCKSTEP_CHECK(spreading == "random" || spreading == "conversation",
                 "spreading '{}': expected random or conversation", spreading);
  options->spreading = spreading == "random" ? Spreading::kRandom : Spreading::kConversation;
  if (const uint32_t workers = absl::GetFlag(FLAGS_workers)) options->num_workers = workers;
  if (const uint32_t blocks = absl::GetFlag(FLAGS_blocks)) options->worker.num_blocks = blocks;
  options->worker.window_tokens = absl::GetFlag(FLAGS_window);
  options->worker.window_blocks = absl::GetFlag(FLAGS_window_blocks);
  options->worker.max_draft_tokens = absl::GetFlag(FLAGS_drafts);
  options->worker.draft_chance = absl::GetFlag(FLAGS_draft_chance);
  options->replica.scheduler.max_draft_tokens = absl::GetFlag(FLAGS_drafts);
  options->replica.scheduler.adaptive_drafts = absl::GetFlag(FLAGS_adaptive_drafts);
  for (TraceOptions& trace : options->traces) {
    if (const uint32_t requests = absl::GetFlag(FLAGS_requests)) trace.num_requests = requests;
    if (const uint64_t seed = absl::GetFlag(FLAGS_seed)) trace.seed = seed;
  }
  if (const uint64_t seed = absl::GetFlag(FLAGS_seed)) options->seed = seed;
  return *options;
}

struct Sums {
  double busy = 0;
  uint64_t num_steps = 0;
  uint64_t num_faults = 0;
};

Sums SumOf(const std::vector<SimulatedWorker::Totals>& workers) {
  Sums sums;
  for (const SimulatedWorker::Totals& worker : workers) {
    sums.busy += absl::ToDoubleSeconds(worker.busy);
    sums.num_steps += worker.num_steps;
    sums.num_faults += worker.num_faults;
  }
  return sums;
}

void Run(const std::string& setting, const std::string& placement, uint32_t num_routers) {
  const double cpu_before = CpuSeconds();
  const SimulationOptions options = OptionsOf(setting, placement, num_routers);
  const SimulationReport report = Simulate(options);
  const double cpu = CpuSeconds() - cpu_before;
  const ServiceReport& all = report.all;
  const Sums sums = SumOf(report.workers);
  const double span = absl::ToDoubleSeconds(report.span);
  const auto num_requests = static_cast<double>(std::max<uint64_t>(1, all.num_requests));
  std::string line =
      fmt::format(R"({{"setting": "{}", "placement": "{}", "workers": {}, "requests": {}, )",
                  setting, placement, options.num_workers, all.num_requests);
  line += fmt::format(R"("workers_of_router": [{}], )", fmt::join(report.workers_of_router, ", "));
  line += fmt::format(
      R"("hit_ratio": {:.4f}, "shared_cache_hit_ratio": {:.4f}, "work_imbalance": {:.3f}, )"
      R"("sequence_imbalance": {:.3f}, )",
      all.hit_ratio(), report.shared_cache_hit_ratio, report.work_imbalance(),
      report.sequence_imbalance());
  line += fmt::format(
      R"("ttft_s": {{"p50": {:.4f}, "p90": {:.4f}, "p99": {:.4f}}}, "in_time_per_s": {:.2f}, )"
      R"("output_tokens_per_s": {:.1f}, "busy": {:.3f}, "virtual_s": {:.1f}, )",
      all.FirstToken(0.5), all.FirstToken(0.9), all.FirstToken(0.99),
      static_cast<double>(all.num_in_time) / span,
      static_cast<double>(all.num_output_tokens) / span, sums.busy / span / options.num_workers,
      span);
  line += fmt::format(
      R"("refused": {}, "failed": {}, "unfinished": {}, "wrong_tokens": {}, "extra_tokens": {}, )"
      R"("missing_tokens": {}, "leaked": {}, "faults": {}, "steps": {}, )",
      all.num_refused, all.num_failed, all.num_unfinished, all.num_wrong_tokens,
      all.num_extra_tokens, all.num_missing_tokens, report.num_leaked, sums.num_faults,
      sums.num_steps);
  line += R"("tenants": {)";
  for (size_t i = 0; i < report.by_trace.size(); ++i) {
    const ServiceReport& tenant = report.by_trace[i];
    line += fmt::format(R"({}"{}": {{"requests": {}, "refused": {}, "failed": {}, )"
                        R"("ttft_p50_s": {:.4f}, "ttft_p99_s": {:.4f}}})",
                        i == 0 ? "" : ", ", options.traces[i].tenant, tenant.num_requests,
                        tenant.num_refused, tenant.num_failed, tenant.FirstToken(0.5),
                        tenant.FirstToken(0.99));
  }
  line += "}, ";
  line += fmt::format(
      R"("router_us_per_request": {:.1f}, "cpu_us_per_request": {:.1f}, "cpu_s": {:.1f}, )"
      R"("max_rss_mib": {:.0f}, "hash": "{:016x}"}})",
      report.router_seconds / num_requests * 1e6, cpu / num_requests * 1e6, cpu, MaxResidentMib(),
      report.hash);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  spdlog::set_level(spdlog::level::off);  // every fault would be a line
  for (const std::string& setting : absl::GetFlag(FLAGS_settings)) {
    for (const std::string& placement : absl::GetFlag(FLAGS_placements)) {
      for (const std::string& routers : absl::GetFlag(FLAGS_routers)) {
        uint32_t num_routers = 0;
        LOCKSTEP_CHECK(absl::SimpleAtoi(routers, &num_routers) && num_routers > 0,
                       "routers '{}': expected numbers from 1", routers);
        lockstep::bench::Run(setting, placement, num_routers);
      }
    }
  }
  return 0;
}
