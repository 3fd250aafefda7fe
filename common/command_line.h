#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>

#include "common/flag.h"

namespace lockstep {

// Sets the fields of the table from the arguments of a program: "--name value", "--name=value",
// and for a switch "--name" and "--no-name". Underscores count as dashes. The last value of a flag
// counts, unless the flag is a RepeatedText. --help and --version print to stdout and end the
// program with exit code 0.
//
// INVALID_ARGUMENT with a line for every unknown flag, every value that cannot be read and every
// argument that is no flag. Flags without an error are set even then.
absl::Status ParseCommandLine(int argc, char** argv, std::string_view usage, FlagTable& table);

// What --help prints: the usage, and every flag with its range and its default.
std::string HelpText(std::string_view usage, const FlagTable& table);

// OK if both are OK. Otherwise INVALID_ARGUMENT with the lines of both.
absl::Status JoinErrors(const absl::Status& first, const absl::Status& second);

}  // namespace lockstep
