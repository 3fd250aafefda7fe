#include "bench/router/soak/hostile_soak.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "bench/router/instant/pacing.h"
#include "bench/router/soak/attackers.h"
#include "bench/router/soak/clients.h"
#include "bench/router/soak/fleet.h"
#include "bench/router/soak/router_probe.h"
#include "bench/serving/quantile.h"
#include "common/named_thread.h"
#include "common/status.h"

namespace lockstep::bench {
namespace {

using testing::ChildProcess;

constexpr uint32_t kMemoryMib = 128;  // of bodies and answers over HTTP

// The tenants' file, for as long as the soak runs.
class TenantsFile {
 public:
  static absl::StatusOr<std::unique_ptr<TenantsFile>> Write() {
    std::string pattern = std::filesystem::temp_directory_path() / "lockstep-soak-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) return Internal("mkdtemp {}", pattern);
    std::unique_ptr<TenantsFile> file(new TenantsFile(pattern));
    std::ofstream(file->path()) << HostileTenants();
    return file;
  }
  ~TenantsFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return folder_ + "/tenants.json"; }

 private:
  explicit TenantsFile(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

// The most memory that a process had resident.
class ResidentPeak {
 public:
  explicit ResidentPeak(const ChildProcess& process)
      : thread_("rss", [this, &process](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            peak_kib_ = std::max(peak_kib_, process.ResidentKib());
            PaceFor(std::chrono::milliseconds(20));
          }
        }) {}

  uint64_t StopAndTell() {
    thread_.request_stop();
    thread_.join();
    return peak_kib_;
  }

 private:
  uint64_t peak_kib_ = 0;  // the thread's until it has ended
  NamedThread thread_;
};

LatencyReport Summarize(const std::vector<ClientLatency>& latencies) {
  std::vector<double> first_ms, whole_ms;
  for (const ClientLatency& latency : latencies) {
    first_ms.push_back(latency.first_token_seconds * 1e3);
    whole_ms.push_back(latency.whole_seconds * 1e3);
  }
  return {.num_requests = latencies.size(),
          .first_token_p50_ms = Quantile(first_ms, 0.5),
          .first_token_p99_ms = Quantile(first_ms, 0.99),
          .whole_p50_ms = Quantile(whole_ms, 0.5),
          .whole_p99_ms = Quantile(whole_ms, 0.99)};
}

std::vector<AttackReport> AttackFor(Clock::duration duration, const AttackTarget& target) {
  const std::span<const Attacker> attackers = AllAttackers();
  std::vector<AttackTally> tallies(attackers.size());
  std::vector<NamedThread> threads;
  for (size_t i = 0; i < attackers.size(); ++i) {
    threads.emplace_back("attacker", [&, i](const std::stop_token& stop) {
      attackers[i].run(target, stop, tallies[i]);
    });
  }
  PaceFor(duration);
  for (NamedThread& thread : threads) thread.request_stop();
  for (NamedThread& thread : threads) thread.join();
  std::vector<AttackReport> reports;
  for (size_t i = 0; i < attackers.size(); ++i) {
    reports.push_back({.name = std::string(attackers[i].name),
                       .num_attempts = tallies[i].num_attempts,
                       .num_answered = tallies[i].num_answered,
                       .num_refused = tallies[i].num_refused,
                       .num_cut_off = tallies[i].num_cut_off});
  }
  return reports;
}

}  // namespace

absl::StatusOr<SoakReport> RunHostile(const SoakOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<TenantsFile> tenants, TenantsFile::Write());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<SoakFleet> fleet,
                            SoakFleet::Start(options, /*proxied=*/false));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const ChildProcess router,
      fleet->StartRouter({"--http_listen=127.0.0.1:0", "--tenants=" + tenants->path(),
                          fmt::format("--max_connection_memory_mib={}", kMemoryMib),
                          // Attackers and honest clients have one address.
                          "--max_connections_per_address=0"}));
  SoakReport report;
  report.hostile.budget_mib = kMemoryMib;
  SoakClients clients(options.num_streams, options.seed, router.grpc_address(), kHonestKey);
  LOCKSTEP_RETURN_IF_ERROR(clients.LearnExpected());
  const Clock::duration duration = absl::ToChronoNanoseconds(options.duration);

  clients.Start();
  ResidentPeak quiet_peak(router);
  PaceFor(duration / 4);
  report.hostile.quiet = Summarize(clients.TakeLatencies());
  report.hostile.quiet_rss_kib = quiet_peak.StopAndTell();

  ResidentPeak attacked_peak(router);
  report.hostile.attacks =
      AttackFor(duration - duration / 4,
                {.grpc_address = router.grpc_address(), .http_address = router.http_address()});
  report.hostile.attacked = Summarize(clients.TakeLatencies());
  report.hostile.attacked_rss_kib = attacked_peak.StopAndTell();

  report.clients = clients.Stop();
  LOCKSTEP_ASSIGN_OR_RETURN(report.leaked, CountLeaks(router));
  // What was begun for clients that are gone comes to its end.
  const absl::Status given_back = WaitUntil("memory is given back", absl::Seconds(10), [&] {
    report.hostile.final_rss_kib = router.ResidentKib();
    return report.hostile.given_back();
  });
  if (!given_back.ok()) std::fprintf(stderr, "%s\n", Message(given_back).c_str());
  return report;
}

}  // namespace lockstep::bench
