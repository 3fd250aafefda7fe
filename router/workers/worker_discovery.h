#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/net/address.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "router/workers/name_resolver.h"

namespace lockstep::router {

// "dns:///name:port" names all workers at that port of the name's addresses.
bool IsWorkerName(std::string_view worker);
// INVALID_ARGUMENT quoting `worker` and saying what was expected.
absl::StatusOr<Address> ParseWorkerName(std::string_view worker);

// Which workers there are, by what names resolved to so far: fixed addresses, and for each name the
// addresses of its answers. An answer that says nothing changes nothing, so the last known ones
// stay; an address has left once it was missing in two answers in a row, because an answer may be
// cut short. Pure.
class WorkerSet {
 public:
  // Addresses and names, all of them valid.
  explicit WorkerSet(const std::vector<std::string>& workers);

  size_t num_names() const { return names_.size(); }
  const std::string& host(size_t name) const { return names_[name].address.host; }
  void Take(size_t name, const absl::StatusOr<std::vector<std::string>>& answer);
  // host:port of each, once.
  std::vector<std::string> workers() const;

 private:
  static constexpr uint32_t kMaxAbsences = 2;

  struct Name {
    Address address;
    std::map<std::string, uint32_t> absences;  // of each host known, answers in a row without it
  };

  std::vector<std::string> fixed_;
  std::vector<Name> names_;
};

// Resolves the names among `workers` at once and then every `interval`, and each time tells which
// workers there are. Owns the thread ("resolve") on which it waits for the resolver, and on which
// `on_workers` is called; not before every name was asked for once.
class WorkerDiscovery {
 public:
  using OnWorkers = std::function<void(const std::vector<std::string>&)>;

  // `resolver` must outlive the object.
  WorkerDiscovery(const std::vector<std::string>& workers, absl::Duration interval,
                  NameResolver* resolver, OnWorkers on_workers);
  // Waits for a question that is under way.
  ~WorkerDiscovery();

 private:
  void Run();
  void ResolveAll();
  // False when there is no next time.
  bool WaitForNextTime();

  const absl::Duration interval_;
  NameResolver& resolver_;
  const OnWorkers on_workers_;
  WorkerSet set_;                      // the thread's
  std::vector<std::string> problems_;  // by name, as last logged; the thread's
  Mutex mutex_;
  CondVar stop_requested_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

}  // namespace lockstep::router
