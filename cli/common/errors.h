#pragma once

#include <absl/status/status.h>

#include <string_view>

namespace lockstep::cli {

// Messages may quote a server. So both functions remove characters that control a terminal.

// "lockstep serve: ..." to stderr, once for every error of the message. Returns the exit code 2.
int PrintUsageError(std::string_view verb, const absl::Status& error);
// "lockstep serve: " and the message, for an error after the arguments were read. Returns the exit
// code 1.
int PrintFailure(std::string_view verb, const absl::Status& error);

}  // namespace lockstep::cli
