#include "tests/rigs/soak/fault_soak.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"
#include "tests/rigs/soak/clients.h"
#include "tests/rigs/soak/fleet.h"
#include "tests/rigs/soak/router_probe.h"

namespace lockstep::bench {
namespace {

using testing::ChildProcess;

// Longer than the router waits for a step, so it gives the worker up.
Clock::duration StopDuration(const SoakOptions& options) {
  return absl::ToChronoNanoseconds(options.step_timeout * 1.5);
}

absl::Status InjectFault(const SoakOptions& options, SoakFleet& fleet, size_t victim,
                         SoakReport& report) {
  switch (options.mode) {
    case SoakMode::kKill: {
      const Clock::time_point start = Clock::now();
      fleet.worker(victim).Signal(SIGKILL);
      LOCKSTEP_RETURN_IF_ERROR(fleet.RestartWorker(victim));
      report.max_restart_seconds = std::max(report.max_restart_seconds, SecondsSince(start));
      break;
    }
    case SoakMode::kStop:
      fleet.worker(victim).Signal(SIGSTOP);
      PaceFor(StopDuration(options));
      fleet.worker(victim).Signal(SIGCONT);
      break;
    case SoakMode::kHalfOpen:
      if (fleet.proxy(victim).Freeze() == 0) return absl::OkStatus();  // not attached: no fault
      break;
    default:
      return absl::InvalidArgumentError("not a fault of a worker");
  }
  ++report.num_faults;
  return absl::OkStatus();
}

// What the router of the end says, once its clients are gone.
absl::Status Conclude(const ChildProcess& router, SoakReport& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(report.leaked, CountLeaks(router));
  LOCKSTEP_ASSIGN_OR_RETURN(const RouterGauges gauges, ReadGauges(router));
  report.num_resumed = gauges.resumed;
  report.rss_kib.push_back(router.ResidentKib());
  return absl::OkStatus();
}

absl::Status InjectFaults(const SoakOptions& options, SoakFleet& fleet, const ChildProcess& router,
                          SoakReport& report) {
  std::mt19937_64 random(options.seed);
  const Clock::duration interval = absl::ToChronoNanoseconds(options.fault_interval);
  const Clock::duration duration = absl::ToChronoNanoseconds(options.duration);
  const Clock::time_point start = Clock::now();
  for (Clock::time_point next = start + interval; next < start + duration; next += interval) {
    if (report.rss_kib.size() == 1 && next >= start + duration / 2) {
      report.rss_kib.push_back(router.ResidentKib());
    }
    PaceUntil(next);
    LOCKSTEP_RETURN_IF_ERROR(
        InjectFault(options, fleet, random() % SoakFleet::kNumWorkers, report));
  }
  PaceUntil(start + duration);
  return absl::OkStatus();
}

// --- takeovers ---

// A router that was stopped runs again, after its workers went to `successor`.
absl::Status ResumeFenced(ChildProcess fenced, const ChildProcess& successor, SoakReport& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RouterGauges before, ReadGauges(successor));
  fenced.Signal(SIGCONT);
  // It loses all leases, and ends its requests once the failover wait is over.
  LOCKSTEP_RETURN_IF_ERROR(WaitUntil("a resumed router is fenced", absl::Seconds(30), [&] {
    const absl::StatusOr<RouterGauges> gauges = ReadGauges(fenced);
    return gauges.ok() && gauges->attached_workers == 0 && gauges->holds_nothing();
  }));
  ++report.num_fenced_routers;
  LOCKSTEP_ASSIGN_OR_RETURN(const RouterGauges after, ReadGauges(successor));
  const bool undisturbed = after.attached_workers == SoakFleet::kNumWorkers &&
                           after.resumed == before.resumed && after.failed == before.failed;
  if (!undisturbed) ++report.num_disturbances;
  fenced.Signal(SIGTERM);
  if (const int code = fenced.Wait(absl::Seconds(60)); code != 0) {
    return Internal("the fenced router ended with {}", code);
  }
  return absl::OkStatus();
}

const std::vector<std::string> kTakeoverFlags = {"--takeover", "--failover_wait=1s"};

// The successor of `router`.
absl::StatusOr<ChildProcess> TakeOver(const SoakFleet& fleet, SoakClients& clients,
                                      ChildProcess router, bool kill, SoakReport& report) {
  router.Signal(kill ? SIGKILL : SIGSTOP);
  ++report.num_faults;
  LOCKSTEP_ASSIGN_OR_RETURN(ChildProcess successor, fleet.StartRouter(kTakeoverFlags));
  clients.Retarget(successor.grpc_address());
  if (!kill) LOCKSTEP_RETURN_IF_ERROR(ResumeFenced(std::move(router), successor, report));
  return successor;
}

}  // namespace

absl::StatusOr<SoakReport> RunWorkerFaults(const SoakOptions& options) {
  SoakReport report;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<SoakFleet> fleet,
                            SoakFleet::Start(options, options.mode == SoakMode::kHalfOpen));
  LOCKSTEP_ASSIGN_OR_RETURN(const ChildProcess router, fleet->StartRouter({}));
  SoakClients clients(options.num_streams, options.seed, router.grpc_address());
  LOCKSTEP_RETURN_IF_ERROR(clients.LearnExpected());
  report.rss_kib.push_back(router.ResidentKib());
  clients.Start();
  const absl::Status injected = InjectFaults(options, *fleet, router, report);
  report.clients = clients.Stop();
  LOCKSTEP_RETURN_IF_ERROR(injected);
  LOCKSTEP_RETURN_IF_ERROR(Conclude(router, report));
  return report;
}

absl::StatusOr<SoakReport> RunTakeovers(const SoakOptions& options) {
  SoakReport report;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<SoakFleet> fleet,
                            SoakFleet::Start(options, /*proxied=*/false));
  absl::StatusOr<ChildProcess> router = fleet->StartRouter(kTakeoverFlags);
  if (!router.ok()) return router.status();
  SoakClients clients(options.num_streams, options.seed, router->grpc_address());
  LOCKSTEP_RETURN_IF_ERROR(clients.LearnExpected());
  clients.Start();
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(options.duration);
  do {
    PaceFor(absl::ToChronoNanoseconds(options.fault_interval));
    const bool kill = report.num_faults % 2 == 1;
    router = TakeOver(*fleet, clients, *std::move(router), kill, report);
  } while (router.ok() && Clock::now() < end);
  if (router.ok()) report.rss_kib.push_back(router->ResidentKib());
  report.clients = clients.Stop();
  if (!router.ok()) return router.status();
  LOCKSTEP_RETURN_IF_ERROR(Conclude(*router, report));
  return report;
}

}  // namespace lockstep::bench
