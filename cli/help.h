#pragma once

#include <absl/status/status.h>

#include <span>
#include <string>
#include <string_view>

#include "cli/verbs.h"

namespace lockstep::cli {

std::string OverviewText();              // lockstep --help
std::string VerbText(const Verb& verb);  // lockstep help VERB
// For a verb that does not exist; names the nearest that does.
std::string UnknownVerbText(std::string_view name);

int RunHelp(std::span<const std::string> words);
int RunVersion(std::span<const std::string> words);
int RunCompletion(std::span<const std::string> words);

// "lockstep serve: ..." to stderr, once for every error of the message. Returns the exit code 2.
int PrintUsageError(std::string_view verb, const absl::Status& error);
// "lockstep serve: " and the message, for what failed later. Returns the exit code 1.
int PrintFailure(std::string_view verb, const absl::Status& error);

}  // namespace lockstep::cli
