#pragma once

#include <string_view>

namespace lockstep {

// True if `authority`, a value of the field Host, is a number or a name that can only mean this
// machine (localhost, *.localhost, host.docker.internal), with or without a port. The owner of any
// other name can point it at this machine (DNS rebinding).
bool NamesThisMachine(std::string_view authority);

}  // namespace lockstep
