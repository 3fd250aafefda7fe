#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/standard/standard.pb.h"

namespace lockstep::router {

// grpc.reflection.v1.ServerReflection's answer about these services, from the descriptors that are
// linked. Extensions are not told of: there are none.
standard::ReflectionResponse Reflect(const standard::ReflectionRequest& request,
                                     const std::vector<std::string>& services);

}  // namespace lockstep::router
