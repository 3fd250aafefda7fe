#include "common/command_line.h"

#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <absl/flags/usage_config.h>
#include <absl/strings/match.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/status.h"
#include "common/version.h"

namespace lockstep {

CommandLine::CommandLine(int argc, char** argv) : arguments_(argv, argv + argc) {
  for (std::string& argument : arguments_) {
    if (argument == "--") break;
    if (!argument.starts_with("--")) continue;
    std::replace(argument.begin() + 2, std::find(argument.begin(), argument.end(), '='), '-', '_');
  }
}

absl::StatusOr<std::vector<std::string>> CommandLine::TakeRepeated(std::string_view name) {
  const std::string flag = fmt::format("--{}", name);
  std::vector<std::string> values;
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    std::string& argument = arguments_[i];
    if (argument == flag) {
      if (i + 1 == arguments_.size()) return InvalidArgument("{}: expected a value", flag);
      values.push_back(std::move(arguments_[++i]));
    } else if (argument.starts_with(flag + "=")) {
      values.push_back(argument.substr(flag.size() + 1));
    } else {
      rest.push_back(std::move(argument));
    }
  }
  arguments_ = std::move(rest);
  return values;
}

absl::Status CommandLine::Parse(std::string_view usage) {
  // --help lists the program's own flags: those of its main.cc, not those of the libraries.
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "main.cc");
  };
  const std::string program = std::filesystem::path(arguments_.front()).filename();
  config.version_string = [program] { return VersionText(program) + "\n"; };
  absl::SetFlagsUsageConfig(config);
  absl::SetProgramUsageMessage(absl::string_view(usage.data(), usage.size()));
  std::vector<char*> pointers;
  for (std::string& argument : arguments_) pointers.push_back(argument.data());
  const std::vector<char*> rest =
      absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  if (rest.size() > 1) {
    return InvalidArgument("unexpected argument \"{}\": every option is a flag", rest[1]);
  }
  return absl::OkStatus();
}

}  // namespace lockstep
