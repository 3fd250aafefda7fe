#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/connection_limiter.h"
#include "common/mutex.h"
#include "lockstep/standard/standard.pb.h"
#include "router/grpc/grpc_services.h"

namespace lockstep::router {

// grpc.health.v1.Health and, if asked for, grpc.reflection.v1.ServerReflection (v1alpha as well),
// which everybody may call. "" is SERVING as long as connections are accepted. Who watches needs no
// key, so watchers are bounded, of a connection, of an address and in total. Safe to use from any
// thread.
class StandardServices {
 public:
  static constexpr size_t kMaxWatchers = 16'384;
  static constexpr size_t kMaxWatchersOfAddress = kMaxWatchers / 4;
  static constexpr size_t kMaxWatchersOfConnection = 128;

  // `service` is the one whose health is asked for.
  StandardServices(std::string service, bool reflection)
      : service_(std::move(service)), reflection_(reflection) {}

  // The object outlives the calls.
  void AddTo(GrpcServices& services);
  // Tells those who watch; not serving before. `accepting`: new connections are.
  void SetServing(bool serving, bool accepting = true);
  size_t num_watchers() const;

 private:
  class HealthCall;
  class Check;
  class Watch;
  class Reflection;

  standard::HealthCheckResponse::ServingStatus HealthOf(const std::string& service) const;
  bool AddWatcher(const std::shared_ptr<Watch>& watch);
  void RemoveWatcher(Watch* watch);

  mutable Mutex mutex_;
  const std::string service_;
  const bool reflection_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool accepting_ ABSL_GUARDED_BY(mutex_) = true;
  absl::flat_hash_map<Watch*, std::weak_ptr<Watch>> watchers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, size_t> by_connection_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ConnectionLimiter::AddressKey, size_t> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
