#include "router/workers/worker_discovery.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "common/check.h"
#include "common/runtime/wait_until.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kScheme = "dns:///";

}  // namespace

bool IsWorkerName(std::string_view worker) { return worker.starts_with("dns:"); }

absl::StatusOr<Address> ParseWorkerName(std::string_view worker) {
  absl::Status error =
      InvalidArgument("name \"{}\", expected dns:///name:port with port 1 to 65535", worker);
  if (!worker.starts_with(kScheme)) return error;
  absl::StatusOr<Address> address = ParseAddress(worker.substr(kScheme.size()));
  if (!address.ok() || address->port == 0) return error;
  return address;
}

WorkerSet::WorkerSet(const std::vector<std::string>& workers) {
  for (const std::string& worker : workers) {
    if (!IsWorkerName(worker)) {
      fixed_.push_back(worker);
      continue;
    }
    absl::StatusOr<Address> address = ParseWorkerName(worker);
    LOCKSTEP_CHECK(address.ok(), "{}", Message(address.status()));
    names_.push_back({.address = *std::move(address), .absences = {}});
  }
}

void WorkerSet::Take(size_t name, const absl::StatusOr<std::vector<std::string>>& answer) {
  if (!answer.ok() || answer->empty()) return;
  std::map<std::string, uint32_t>& absences = names_[name].absences;
  for (auto& [host, count] : absences) ++count;
  for (const std::string& host : *answer) absences[host] = 0;
  std::erase_if(absences, [](const auto& entry) { return entry.second >= kMaxAbsences; });
}

std::vector<std::string> WorkerSet::workers() const {
  std::set<std::string> all(fixed_.begin(), fixed_.end());
  for (const Name& name : names_) {
    for (const auto& [host, count] : name.absences) {
      all.insert(FormatAddress({.host = host, .port = name.address.port}));
    }
  }
  return {all.begin(), all.end()};
}

WorkerDiscovery::WorkerDiscovery(const std::vector<std::string>& workers, absl::Duration interval,
                                 NameResolver* resolver, OnWorkers on_workers)
    : interval_(interval),
      resolver_(*resolver),
      on_workers_(std::move(on_workers)),
      set_(workers),
      problems_(set_.num_names()),
      thread_("resolve", [this] { Run(); }) {}

WorkerDiscovery::~WorkerDiscovery() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_requested_.NotifyAll();
  thread_.join();
}

void WorkerDiscovery::Run() {
  do {
    ResolveAll();
    on_workers_(set_.workers());
  } while (WaitForNextTime());
}

void WorkerDiscovery::ResolveAll() {
  for (size_t name = 0; name < set_.num_names(); ++name) {
    const absl::StatusOr<std::vector<std::string>> answer = resolver_.Resolve(set_.host(name));
    set_.Take(name, answer);
    std::string problem = answer.ok() ? "" : Message(answer.status());
    if (problem != problems_[name] && !problem.empty()) {
      spdlog::warn("workers of {} stay as they were: {}", set_.host(name), problem);
    }
    problems_[name] = std::move(problem);
  }
}

bool WorkerDiscovery::WaitForNextTime() {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(interval_);
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!WaitUntil(mutex_, stop_requested_, deadline)) return true;
  }
  return false;
}

}  // namespace lockstep::router
