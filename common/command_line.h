#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The arguments of one of our programs. Flags may be spelled with dashes ("--admin-listen"), some
// may be given several times, and all wrong arguments are reported together.
class CommandLine {
 public:
  CommandLine(int argc, char** argv);

  // Removes every "--name value" and "--name=value" and returns the values. INVALID_ARGUMENT if a
  // value is missing.
  absl::StatusOr<std::vector<std::string>> TakeRepeated(std::string_view name);

  // Sets the program's flags, defined in its main.cc. --help and --version print to stdout and end
  // the program with exit code 0. A duration may have no unit: "10" is ten seconds.
  // INVALID_ARGUMENT with a line for every unknown flag, every unreadable value and every argument
  // that is no flag. Flags without an error are set even then.
  absl::Status Parse(std::string_view usage);

 private:
  std::vector<std::string> arguments_;  // the program's name first
};

// OK if both are OK. Otherwise INVALID_ARGUMENT with the lines of both.
absl::Status JoinErrors(const absl::Status& first, const absl::Status& second);

}  // namespace lockstep
