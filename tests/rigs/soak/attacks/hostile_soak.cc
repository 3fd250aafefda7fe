#include "tests/rigs/soak/attacks/hostile_soak.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/heap.h"
#include "common/runtime/named_thread.h"
#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/quantile.h"
#include "tests/rigs/soak/attacks/attackers.h"
#include "tests/rigs/soak/clients.h"
#include "tests/rigs/soak/fleet.h"
#include "tests/rigs/soak/processors.h"
#include "tests/rigs/soak/resident_peak.h"
#include "tests/rigs/soak/router_probe.h"

namespace lockstep::bench {
namespace {

using testing::ChildProcess;

constexpr uint32_t kMemoryMib = 128;  // of the budget
// For the router to close what an attacker has left behind.
constexpr absl::Duration kClosing = absl::Seconds(20);

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

// The attackers at once, for `duration`. Their threads run where the options put them.
std::vector<AttackReport> AttackFor(Clock::duration duration, std::span<const Attacker> attackers,
                                    const AttackTarget& target, const std::string& processors) {
  std::vector<AttackTally> tallies(attackers.size());
  std::vector<NamedThread> threads;
  {
    const OnProcessors pinned(processors);
    for (size_t i = 0; i < attackers.size(); ++i) {
      threads.emplace_back("attacker", [&, i](const std::stop_token& stop) {
        attackers[i].run(target, stop, tallies[i]);
      });
    }
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

// The router, its workers and its honest clients, who stream all the time.
class HostileStage {
 public:
  static absl::StatusOr<std::unique_ptr<HostileStage>> Set(const SoakOptions& options) {
    std::unique_ptr<HostileStage> stage(new HostileStage(options));
    LOCKSTEP_RETURN_IF_ERROR(stage->Begin());
    return stage;
  }

  // A part of the soak: honest clients beside these attackers.
  PhaseReport Play(std::string name, Clock::duration duration,
                   std::span<const Attacker> attackers) {
    PhaseReport phase;
    phase.name = std::move(name);
    clients_->TakeLatencies();
    const uint64_t num_wrong = clients_->tally().num_wrong();
    ResidentPeak peak(*router_);
    phase.start_rss_kib = router_->ResidentKib();
    phase.attacks = AttackFor(
        duration, attackers,
        {.grpc_address = router_->grpc_address(), .http_address = router_->http_address()},
        options_.attacker_processors);
    phase.latency = Summarize(clients_->TakeLatencies());
    phase.peak_rss_kib = peak.StopAndTellKib();
    phase.num_wrong = clients_->tally().num_wrong() - num_wrong;
    return phase;
  }

  // Waits until only honest clients have connections.
  absl::Status AwaitEndOfAttack() {
    return WaitUntil("connections of attackers are closed", kClosing, [this] {
      const absl::StatusOr<double> open = CountConnections(*router_);
      return open.ok() && *open <= num_honest_connections_;
    });
  }

  absl::Status End(SoakReport& report) {
    report.clients = clients_->Stop();
    LOCKSTEP_ASSIGN_OR_RETURN(report.leaked, CountLeaks(*router_));
    // What was begun for clients that are gone comes to its end. The keeper may have tried in vain
    // while attackers held what they took, and then pauses.
    const absl::Duration timeout = FreedMemoryWatch::kMaxInterval + absl::Seconds(10);
    const absl::Status given_back = WaitUntil("memory is given back", timeout, [&] {
      report.hostile.final_rss_kib = router_->ResidentKib();
      return report.hostile.given_back();
    });
    if (!given_back.ok()) std::fprintf(stderr, "%s\n", Message(given_back).c_str());
    return absl::OkStatus();
  }

 private:
  explicit HostileStage(const SoakOptions& options) : options_(options) {}

  absl::Status Begin() {
    LOCKSTEP_ASSIGN_OR_RETURN(tenants_, TenantsFile::Write());
    {
      const OnProcessors pinned(options_.client_processors);
      LOCKSTEP_ASSIGN_OR_RETURN(fleet_, SoakFleet::Start(options_, /*proxied=*/false));
    }
    {
      const OnProcessors pinned(options_.router_processors);
      std::vector<std::string> flags = {"--http_listen=127.0.0.1:0",
                                        "--tenants=" + tenants_->path(),
                                        fmt::format("--max_connection_memory_mib={}", kMemoryMib),
                                        // Attackers and honest clients have one address.
                                        "--max_connections_per_address=0"};
      flags.insert(flags.end(), options_.router_flags.begin(), options_.router_flags.end());
      LOCKSTEP_ASSIGN_OR_RETURN(ChildProcess router, fleet_->StartRouter(flags));
      router_.emplace(std::move(router));
    }
    const OnProcessors pinned(options_.client_processors);
    clients_ = std::make_unique<SoakClients>(options_.num_streams, options_.seed,
                                             router_->grpc_address(), kHonestKey);
    LOCKSTEP_RETURN_IF_ERROR(clients_->LearnExpected());
    LOCKSTEP_ASSIGN_OR_RETURN(num_honest_connections_, CountConnections(*router_));
    clients_->Start();
    return absl::OkStatus();
  }

  const SoakOptions options_;
  std::unique_ptr<TenantsFile> tenants_;
  std::unique_ptr<SoakFleet> fleet_;
  std::optional<ChildProcess> router_;
  std::unique_ptr<SoakClients> clients_;
  double num_honest_connections_ = 0;
};

void PrintHeading() {
  std::printf("%-20s %9s %9s %9s %9s %8s %9s %9s %6s %s\n", "class", "first p50", "first p99",
              "whole p50", "whole p99", "honest", "attacks", "peak MiB", "wrong", "p99 held");
  std::printf("%-20s %9s %9s %9s %9s %8s\n", "", "ms", "ms", "ms", "ms", "requests");
}

void Print(const PhaseReport& phase, const PhaseReport& quiet) {
  uint64_t num_attempts = 0;
  for (const AttackReport& attack : phase.attacks) num_attempts += attack.num_attempts;
  const LatencyReport& latency = phase.latency;
  std::printf(
      "%-20s %9.1f %9.1f %9.1f %9.1f %8llu %9llu %9.1f %6llu %s\n", phase.name.c_str(),
      latency.first_token_p50_ms, latency.first_token_p99_ms, latency.whole_p50_ms,
      latency.whole_p99_ms, static_cast<unsigned long long>(latency.num_requests),
      static_cast<unsigned long long>(num_attempts), static_cast<double>(phase.peak_rss_kib) / 1024,
      static_cast<unsigned long long>(phase.num_wrong), phase.is_swift(quiet) ? "yes" : "no");
  std::fflush(stdout);
}

}  // namespace

absl::StatusOr<SoakReport> RunHostile(const SoakOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Attacker> attackers, AttackersNamed(options.attacks));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<HostileStage> stage, HostileStage::Set(options));
  SoakReport report;
  report.hostile.budget_mib = kMemoryMib;
  const Clock::duration duration = absl::ToChronoNanoseconds(options.duration);
  report.hostile.quiet = stage->Play("undisturbed", duration / 4, {});
  report.hostile.attacked.push_back(stage->Play("attacked", duration - duration / 4, attackers));
  LOCKSTEP_RETURN_IF_ERROR(stage->End(report));
  return report;
}

absl::StatusOr<SoakReport> RunEachAttack(const SoakOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Attacker> attackers, AttackersNamed(options.attacks));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<HostileStage> stage, HostileStage::Set(options));
  SoakReport report;
  HostileReport& hostile = report.hostile;
  hostile.budget_mib = kMemoryMib;
  const Clock::duration duration = absl::ToChronoNanoseconds(options.duration);
  PrintHeading();
  hostile.quiet = stage->Play("undisturbed", duration, {});
  Print(hostile.quiet, hostile.quiet);
  for (const Attacker& attacker : attackers) {
    PhaseReport phase = stage->Play(std::string(attacker.name), duration, {&attacker, 1});
    phase.is_timed = attacker.is_timed;
    Print(phase, hostile.quiet);
    hostile.attacked.push_back(std::move(phase));
    LOCKSTEP_RETURN_IF_ERROR(stage->AwaitEndOfAttack());
  }
  LOCKSTEP_RETURN_IF_ERROR(stage->End(report));
  return report;
}

}  // namespace lockstep::bench
