#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/common/verb.h"

namespace lockstep::cli {

std::string OverviewText();              // lockstep --help
std::string VerbText(const Verb& verb);  // lockstep help VERB
// The error for a verb that does not exist. Names the nearest verb.
std::string UnknownVerbText(std::string_view name);

int RunHelp(const Verb& verb, std::span<const std::string> words);
int RunVersion(const Verb& verb, std::span<const std::string> words);
int RunCompletion(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
