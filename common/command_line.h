#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The arguments of one of our programs before Abseil's flags see them. Flags may be spelled with
// dashes ("--admin-listen"), and some may be given several times, which Abseil knows neither of.
class CommandLine {
 public:
  CommandLine(int argc, char** argv);

  // Takes every "--name value" and "--name=value" out; INVALID_ARGUMENT when a value is missing.
  absl::StatusOr<std::vector<std::string>> TakeRepeated(std::string_view name);

  // Hands the rest to Abseil, which ends the program for an unknown flag, --help and --version.
  // INVALID_ARGUMENT when something is left that is no flag.
  absl::Status Parse(std::string_view usage);

 private:
  std::vector<std::string> arguments_;
};

}  // namespace lockstep
