#pragma once

#include <span>
#include <string>

#include "cli/common/verb.h"

namespace lockstep::cli {

// A chat with a server, until the input ends. Exit codes: 0 done, 1 the last request failed or
// there is no server, 2 wrong usage.
int RunChat(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
