#pragma once

#include <span>
#include <string>

#include "cli/common/verb.h"

namespace lockstep::cli {

// Serves a model on this machine until Ctrl-C. Exit codes: 0 drained, 1 failed, 2 wrong usage,
// 130 a second signal ended everything at once.
int RunServe(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
