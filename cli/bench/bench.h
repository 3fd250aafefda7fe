#pragma once

#include <span>
#include <string>

#include "cli/common/verb.h"

namespace lockstep::cli {

// `lockstep bench`: loads a server and prints the figures that its clients measured. `lockstep
// bench compare A B`: compares two results; exit code 1 if a figure became worse.
int RunBench(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
