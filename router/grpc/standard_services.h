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

// grpc.health.v1.Health and, if asked for, grpc.reflection.v1.ServerReflection (v1alpha as well),
// which everybody may call. "" is SERVING as long as connections are accepted. These calls need no
// key, so the open ones are bounded, of a connection, and those that watch of an address and in
// total as well. Safe to use from any thread.
class StandardServices {
 public:
  static constexpr size_t kMaxWatchers = 16'384;
  static constexpr size_t kMaxWatchersOfAddress = kMaxWatchers / 4;
  static constexpr size_t kMaxWatchersOfConnection = 128;
  static constexpr size_t kMaxCallsOfConnection = 256;  // those that watch, and all others

  // `service` is the one whose health is asked for.
  StandardServices(std::string service, bool reflection)
      : service_(std::move(service)), reflection_(reflection) {}

  // The object outlives the calls.
  void AddTo(GrpcServices& services);
  // Tells the watchers. Before the first call the state is "not serving". `accepting`: new
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
  // False: the connection has too many.
  bool AddCall(uint64_t connection_id);
  void RemoveCall(uint64_t connection_id);
  // False: there are too many, of its connection or in total.
  bool AddWatcher(const std::shared_ptr<Watch>& watch);
  void RemoveWatcher(Watch* watch);

  // Of a connection that has any.
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
  // Watchers.
  absl::flat_hash_map<ConnectionLimiter::AddressKey, size_t> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
