#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/standard/standard.pb.h"

namespace lockstep {

// The response of grpc.reflection.v1.ServerReflection about `services`, from the linked
// descriptors. Extensions are not supported, because there are none.
standard::ReflectionResponse Reflect(const standard::ReflectionRequest& request,
                                     const std::vector<std::string>& services);

}  // namespace lockstep
