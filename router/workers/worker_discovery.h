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

// "dns:///name:port" stands for one worker at each address of the name, all at this port.
bool IsWorkerName(std::string_view worker);
// INVALID_ARGUMENT quotes `worker` and says what was expected.
absl::StatusOr<Address> ParseWorkerName(std::string_view worker);

// The set of workers, according to what the names resolved to so far: fixed addresses, and for each
// name the addresses in its answers. A failed or empty answer changes nothing, so the last known
// addresses stay. An answer may be cut short, so an address leaves only when it is missing in two
// answers in a row. Pure.
class WorkerSet {
 public:
  // `workers`: addresses and names, all valid.
  explicit WorkerSet(const std::vector<std::string>& workers);

  size_t num_names() const { return names_.size(); }
  const std::string& host(size_t name) const { return names_[name].address.host; }
  void Take(size_t name, const absl::StatusOr<std::vector<std::string>>& answer);
  // host:port of each worker, without duplicates.
  std::vector<std::string> workers() const;

 private:
  static constexpr uint32_t kMaxAbsences = 2;

  struct Name {
    Address address;
    std::map<std::string, uint32_t> absences;  // known host -> answers in a row without it
  };

  std::vector<std::string> fixed_;
  std::vector<Name> names_;
};

// Resolves the names among `workers` at once and then every `interval`, and reports all workers
// each time. Owns a thread ("resolve"), which waits for the resolver and calls `on_workers`. The
// first call comes after every name was resolved once.
class WorkerDiscovery {
 public:
  using OnWorkers = std::function<void(const std::vector<std::string>&)>;

  // `resolver` must outlive the object.
  WorkerDiscovery(const std::vector<std::string>& workers, absl::Duration interval,
                  NameResolver* resolver, OnWorkers on_workers);
  // Waits for a lookup in progress.
  ~WorkerDiscovery();

 private:
  void Run();
  void ResolveAll();
  // Returns false if the object is being destroyed.
  bool WaitForNextTime();

  const absl::Duration interval_;
  NameResolver& resolver_;
  const OnWorkers on_workers_;
  WorkerSet set_;                      // used on the thread only
  std::vector<std::string> problems_;  // last logged problem of each name; used on the thread only
  Mutex mutex_;
  CondVar stop_requested_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

}  // namespace lockstep::router
