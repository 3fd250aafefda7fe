#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "common/mutex.h"
#include "router/grpc/grpc_loop.h"

namespace lockstep::router {

// grpc.health.v1.Health and, if asked for, grpc.reflection.v1.ServerReflection (v1alpha as well),
// on a loop like every other call: the library's own bring threads that poll sockets. "" is SERVING
// as long as there is an answer. Every other method of unknown name is UNIMPLEMENTED.
class StandardServices {
 public:
  // `service` is the one whose health is asked for.
  StandardServices(std::string service, bool reflection)
      : service_(std::move(service)), reflection_(reflection) {}

  void Register(grpc::ServerBuilder& builder) { builder.RegisterAsyncGenericService(&generic_); }
  // Once the server is up, until it shuts down; the object outlives its calls.
  void Listen(const std::shared_ptr<GrpcLoop>& loop);
  // Not before. Tells those who watch; from any thread.
  void SetServing(bool serving);
  size_t num_watchers() const;

 private:
  class Call;

  grpc::AsyncGenericService generic_;
  const std::string service_;
  const bool reflection_;
  mutable Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<Call>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
