#include "common/command_line.h"

#include <absl/flags/commandlineflag.h>
#include <absl/flags/parse.h>
#include <absl/flags/reflection.h>
#include <absl/flags/usage_config.h>
#include <absl/strings/match.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "common/nearest.h"
#include "common/status.h"
#include "common/version.h"

namespace lockstep {
namespace {

bool IsOfProgram(absl::string_view file) { return absl::EndsWith(file, "main.cc"); }

std::string Dashed(std::string_view name) {
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  return dashed;
}

// "; did you mean --listen?", or nothing if no flag of the program has a similar name.
std::string Suggestion(std::string_view name) {
  std::vector<std::string_view> known;
  for (const auto& [flag_name, flag] : absl::GetAllFlags()) {
    if (IsOfProgram(flag->Filename())) known.emplace_back(flag_name.data(), flag_name.size());
  }
  std::ranges::sort(known);
  const std::optional<std::string_view> nearest = Nearest(name, known);
  return nearest.has_value() ? fmt::format("; did you mean --{}?", Dashed(*nearest)) : "";
}

// One argument "--name" or "--name=value", with underscores for the dashes in its name.
struct Argument {
  std::string name;
  std::optional<std::string> value;
};

Argument SplitArgument(std::string_view text) {
  text.remove_prefix(text.starts_with("--") ? 2 : 1);
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {.name = std::string(text), .value = std::nullopt};
  return {.name = std::string(text.substr(0, equals)),
          .value = std::string(text.substr(equals + 1))};
}

absl::CommandLineFlag* FindFlag(std::string_view name) {
  return absl::FindCommandLineFlag(absl::string_view(name.data(), name.size()));
}

// "--help", "-h", and Abseil's other spellings.
bool IsHelp(std::string_view name) { return name == "h" || name.starts_with("help"); }

// "10" or "1.5", without a unit.
bool IsPlainNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Appends the words of `text`, wrapped at the width. A line never begins with a flag's name,
// because it would look like an entry of the list.
void AppendWrapped(std::string_view text, std::string& out) {
  constexpr size_t kMaxColumns = 100;
  constexpr std::string_view kIndent = "      ";
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool wraps = column + 1 + word.size() > kMaxColumns && !word.starts_with("--");
    out += column == 0 ? "  " : wraps ? fmt::format("\n{}", kIndent) : " ";
    column = (column == 0 ? 2 : wraps ? kIndent.size() : column + 1) + word.size();
    out += word;
  }
  out += '\n';
}

std::string HelpText(std::string_view usage) {
  std::map<std::string, const absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (IsOfProgram(flag->Filename())) flags.emplace(std::string(name), flag);
  }
  std::string out = fmt::format("{}\n\nFlags:\n", usage);
  for (const auto& [name, flag] : flags) {
    const std::string quote = flag->IsOfType<std::string>() ? "\"" : "";
    AppendWrapped(fmt::format("--{} ({}); default: {}{}{};", Dashed(name), flag->Help(), quote,
                              flag->DefaultValue(), quote),
                  out);
  }
  return out;
}

// The boolean flag that "nonames" or "no_names" switches off, or null.
absl::CommandLineFlag* FindNegated(std::string_view name) {
  for (const std::string_view prefix : {"no_", "no"}) {
    if (!name.starts_with(prefix)) continue;
    absl::CommandLineFlag* flag = FindFlag(name.substr(prefix.size()));
    if (flag != nullptr && flag->IsOfType<bool>()) return flag;
  }
  return nullptr;
}

// Goes through the arguments once: sets the flags, keeps Abseil's own flags, collects the errors.
class FlagSetter {
 public:
  explicit FlagSetter(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  void Run() {
    for (next_ = 1; next_ < arguments_.size();) {
      const std::string argument = arguments_[next_++];
      if (argument.size() < 2 || argument[0] != '-' || argument == "--") {
        AddError(fmt::format("unexpected argument \"{}\": every option is a flag", argument));
      } else {
        Take(SplitArgument(argument), argument);
      }
    }
  }

  const std::vector<std::string>& for_abseil() const { return for_abseil_; }
  bool asks_for_help() const { return asks_for_help_; }
  const std::string& errors() const { return errors_; }

 private:
  void AddError(std::string_view line) {
    errors_ += fmt::format("{}{}", errors_.empty() ? "" : "\n", line);
  }

  bool NextIsValue() const {
    return next_ < arguments_.size() && !arguments_[next_].starts_with("--");
  }

  void Take(Argument argument, const std::string& text) {
    absl::CommandLineFlag* flag = FindFlag(argument.name);
    const bool of_library = flag != nullptr && !IsOfProgram(flag->Filename());
    if (of_library || argument.name == "version") return for_abseil_.push_back(text);
    if (flag == nullptr && IsHelp(argument.name)) {
      asks_for_help_ = true;
      return;
    }
    if (flag == nullptr && !argument.value.has_value()) {
      if (absl::CommandLineFlag* negated = FindNegated(argument.name))
        return Set(*negated, "false");
    }
    if (flag == nullptr) {
      AddError(fmt::format("--{}: there is no such flag{}", Dashed(argument.name),
                           Suggestion(argument.name)));
      if (!argument.value.has_value() && NextIsValue()) ++next_;
      return;
    }
    if (argument.value.has_value()) return Set(*flag, *argument.value);
    if (flag->IsOfType<bool>()) return Set(*flag, "true");
    if (next_ == arguments_.size()) {
      return AddError(fmt::format("--{}: expected a value", Dashed(argument.name)));
    }
    Set(*flag, arguments_[next_++]);
  }

  void Set(absl::CommandLineFlag& flag, const std::string& value) {
    std::string error;
    const bool seconds = flag.IsOfType<absl::Duration>() && IsPlainNumber(value);
    if (flag.ParseFrom(seconds ? value + "s" : value, &error)) return;
    const absl::string_view name = flag.Name();
    AddError(fmt::format("--{}: cannot read \"{}\"", Dashed({name.data(), name.size()}), value));
  }

  const std::vector<std::string> arguments_;
  size_t next_ = 1;  // index of the argument to read next
  std::vector<std::string> for_abseil_;
  bool asks_for_help_ = false;
  std::string errors_;
};

}  // namespace

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
  absl::FlagsUsageConfig config;
  const std::string program = std::filesystem::path(arguments_.front()).filename();
  config.version_string = [program] { return VersionText(program) + "\n"; };
  absl::SetFlagsUsageConfig(config);
  FlagSetter setter(arguments_);
  setter.Run();
  if (setter.asks_for_help()) {
    // Abseil's own help ends with 1, and lists the flags of libraries, too.
    std::fputs(HelpText(usage).c_str(), stdout);
    std::exit(0);
  }
  // Only flags of libraries and --version are left.
  std::vector<std::string> rest = setter.for_abseil();
  rest.insert(rest.begin(), arguments_.front());
  std::vector<char*> pointers;
  pointers.reserve(rest.size());
  for (std::string& argument : rest) pointers.push_back(argument.data());
  absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  return setter.errors().empty() ? absl::OkStatus() : InvalidArgument("{}", setter.errors());
}

absl::Status JoinErrors(const absl::Status& first, const absl::Status& second) {
  if (first.ok()) return second;
  if (second.ok()) return first;
  return InvalidArgument("{}\n{}", Message(first), Message(second));
}

}  // namespace lockstep
