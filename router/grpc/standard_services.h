#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/net/connection_limiter.h"
#include "common/runtime/mutex.h"
#include "lockstep/standard/standard.pb.h"
#include "router/grpc/grpc_services.h"

namespace lockstep::router {

// grpc.health.v1.Health and, if `reflection`, grpc.reflection.v1.ServerReflection (also v1alpha).
// The service "" is SERVING while connections are accepted. These calls need no key, so their
// number is limited: open calls per connection, and watching calls also per connection, per address
// and in total. Safe to use from any thread.
class StandardServices {
 public:
  static constexpr size_t kMaxWatchers = 16'384;
  static constexpr size_t kMaxWatchersOfAddress = kMaxWatchers / 4;
  static constexpr size_t kMaxWatchersOfConnection = 128;
  static constexpr size_t kMaxCallsOfConnection = 256;  // watching calls and all others

  // `service`: the service that the health reports are for.
  StandardServices(std::string service, bool reflection)
      : service_(std::move(service)), reflection_(reflection) {}

  // The object must outlive the calls.
  void AddTo(GrpcServices& services);
  // Tells the watchers. Before the first call the service is not serving. `accepting`: new
  // connections are accepted.
  void SetServing(bool serving, bool accepting = true);
  size_t num_watchers() const;

 private:
  class OpenCall;
  class HealthCall;
  class Check;
  class Watch;
  class Reflection;

  standard::HealthCheckResponse::ServingStatus HealthOf(const std::string& service) const;
  // Returns false if the connection has too many calls.
  bool AddCall(uint64_t connection_id);
  void RemoveCall(uint64_t connection_id);
  // Returns false if there are too many: of its connection, of its address, or in total.
  bool AddWatcher(const std::shared_ptr<Watch>& watch);
  void RemoveWatcher(Watch* watch);

  // The counts of a connection with at least one call.
  struct OpenCalls {
    size_t num_calls = 0;
    size_t num_watchers = 0;
  };

  mutable Mutex mutex_;
  const std::string service_;
  const bool reflection_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool accepting_ ABSL_GUARDED_BY(mutex_) = true;
  absl::flat_hash_map<Watch*, std::weak_ptr<Watch>> watchers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, OpenCalls> by_connection_ ABSL_GUARDED_BY(mutex_);
  // Number of watchers of each address.
  absl::flat_hash_map<ConnectionLimiter::AddressKey, size_t> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
