#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cli/common/verb.h"

// What `lockstep` can do.
namespace lockstep::cli {

// In the order of the help.
std::span<const Verb> Verbs();
const Verb* FindVerb(std::string_view name);
std::vector<std::string_view> VerbNames();

}  // namespace lockstep::cli
