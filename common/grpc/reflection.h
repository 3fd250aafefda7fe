#pragma once

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

namespace lockstep {

// A server that tells nobody its services: builder.SetOption(std::make_unique<NoReflection>()).
// Without it every server of a process that links gRPC's reflection has that service.
class NoReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const std::unique_ptr<grpc::ServerBuilderPlugin>& plugin) {
      return dynamic_cast<const grpc::reflection::ProtoServerReflectionPlugin*>(plugin.get()) !=
             nullptr;
    });
  }
};

}  // namespace lockstep
