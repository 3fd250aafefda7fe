#pragma once

#include <string_view>

namespace lockstep {

// Whether a web page of this host can only be of this machine, or was reached by a number: a name
// of this machine alone (localhost, *.localhost, host.docker.internal) or a number, with or without
// a port. Any other name may belong to anybody, who may point it at this machine (DNS rebinding).
// `authority` is as the field Host has it.
bool NamesThisMachine(std::string_view authority);

}  // namespace lockstep
