#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/rpc_connection.h"
#include "lockstep/standard/standard.pb.h"

namespace lockstep::worker {

// The calls of every gRPC server: grpc.health.v1.Health, and grpc.reflection.v1 and v1alpha. The
// health of "" is serving while the worker lives. Lives on the service thread.
class StandardCalls {
 public:
  // `serving()` is the health of `service`.
  StandardCalls(std::string service, std::function<bool()> serving)
      : service_(std::move(service)), serving_(std::move(serving)) {}

  // True if the call is one of these. Pass its events to OnEvent then.
  bool Open(const std::shared_ptr<RpcConnection>& connection, const RpcEvent& event);
  // True if the event belonged to one of these calls.
  bool OnEvent(RpcConnection& connection, const RpcEvent& event);
  // Sends the new health to the watchers.
  void OnServingChange();

 private:
  enum class Kind { kCheck, kWatch, kReflection };
  struct OpenCall {
    Kind kind;
    std::shared_ptr<RpcConnection> connection;
    RpcConnection::CallId id;
    std::string watched;  // kWatch: the service, when it is known
    bool asked = false;
  };
  using Health = standard::HealthCheckResponse;

  void OnMessage(OpenCall& call, const std::string& bytes);
  void Reflect(OpenCall& call, const std::string& bytes);
  void TellHealth(OpenCall& call);
  Health::ServingStatus HealthOf(const std::string& service) const;

  const std::string service_;
  const std::function<bool()> serving_;
  using Key = std::pair<const RpcConnection*, RpcConnection::CallId>;
  absl::flat_hash_map<Key, OpenCall> calls_;
};

}  // namespace lockstep::worker
