#pragma once

#include <span>
#include <string>

#include "cli/common/verb.h"

namespace lockstep::cli {

// Shows a server's metrics, once a second until Ctrl-C. Exit codes: 0 done, 1 no metrics, 2 wrong
// usage.
int RunTop(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
