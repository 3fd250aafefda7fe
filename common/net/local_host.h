#pragma once

#include <string_view>

namespace lockstep {

// Whether `authority`, as the field Host has it, is a number or a name that only this machine has
// (localhost, *.localhost, host.docker.internal), with or without a port. Anybody may own any other
// name, and may point it at this machine (DNS rebinding).
bool NamesThisMachine(std::string_view authority);

}  // namespace lockstep
