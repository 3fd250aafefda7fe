#pragma once

#include <span>
#include <string>

#include "cli/common/verb.h"

namespace lockstep::cli {

// `lockstep upgrade`: asks the `lockstep serve` of this user at a port to replace its workers, and
// prints how it goes. Returns the exit code.
int RunUpgrade(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
