#pragma once

#include <string_view>

namespace lockstep {

std::string_view Version();    // "0.1.0", the project's version
std::string_view GitCommit();  // short hash at configure time, "unknown" outside a git checkout

}  // namespace lockstep
