#include "common/command_line.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "common/nearest.h"
#include "common/status.h"
#include "common/version.h"

namespace lockstep {
namespace {

// "; did you mean --listen?", or nothing if no flag has a similar name.
std::string Suggestion(const FlagTable& table, std::string_view name) {
  std::vector<std::string_view> known;
  for (const FlagGroup& group : table) {
    for (const Flag& flag : group.flags) known.push_back(flag.name());
  }
  std::ranges::sort(known);
  const std::optional<std::string_view> nearest = Nearest(name, known);
  return nearest.has_value() ? fmt::format("; did you mean --{}?", *nearest) : "";
}

// One argument "--name" or "--name=value", with dashes for the underscores in its name.
struct Argument {
  std::string name;
  std::optional<std::string> value;
};

Argument SplitArgument(std::string_view text) {
  text.remove_prefix(text.starts_with("--") ? 2 : 1);
  const size_t equals = text.find('=');
  Argument argument{.name = std::string(text.substr(0, equals)), .value = std::nullopt};
  std::ranges::replace(argument.name, '_', '-');
  if (equals != std::string_view::npos) argument.value = text.substr(equals + 1);
  return argument;
}

// "--help", "-h" and "--helpfull", as other programs have it.
bool IsHelp(std::string_view name) { return name == "h" || name.starts_with("help"); }

// Goes through the arguments once: sets the flags and collects the errors.
class ArgumentReader {
 public:
  ArgumentReader(std::vector<std::string> arguments, FlagTable& table)
      : arguments_(std::move(arguments)), table_(table) {}

  void Run() {
    while (next_ < arguments_.size()) {
      const std::string argument = arguments_[next_++];
      if (argument.size() < 2 || argument[0] != '-' || argument == "--") {
        AddError(fmt::format("unexpected argument \"{}\": every option is a flag", argument));
      } else {
        Take(SplitArgument(argument));
      }
    }
  }

  bool asks_for_help() const { return asks_for_help_; }
  bool asks_for_version() const { return asks_for_version_; }
  absl::Status status() const {
    return errors_.empty() ? absl::OkStatus() : InvalidArgument("{}", errors_);
  }

 private:
  void AddError(std::string_view line) {
    errors_ += fmt::format("{}{}", errors_.empty() ? "" : "\n", line);
  }

  bool NextIsValue() const {
    return next_ < arguments_.size() && !arguments_[next_].starts_with("--");
  }

  // The switch that "noname" or "no-name" turns off, or null.
  Flag* FindNegated(std::string_view name) {
    for (const std::string_view prefix : {"no-", "no"}) {
      if (!name.starts_with(prefix)) continue;
      Flag* const flag = FindFlag(table_, name.substr(prefix.size()));
      if (flag != nullptr && flag->is_switch()) return flag;
    }
    return nullptr;
  }

  void Take(const Argument& argument) {
    if (Flag* const flag = FindFlag(table_, argument.name)) return TakeFlag(*flag, argument);
    if (IsHelp(argument.name)) {
      asks_for_help_ = true;
    } else if (argument.name == "version") {
      asks_for_version_ = true;
    } else if (Flag* const negated = FindNegated(argument.name);
               negated != nullptr && !argument.value.has_value()) {
      Set(*negated, "false");
    } else {
      AddError(fmt::format("--{}: there is no such flag{}", argument.name,
                           Suggestion(table_, argument.name)));
      if (!argument.value.has_value() && NextIsValue()) ++next_;
    }
  }

  void TakeFlag(Flag& flag, const Argument& argument) {
    if (argument.value.has_value()) return Set(flag, *argument.value);
    if (flag.is_switch()) return Set(flag, "true");
    if (next_ == arguments_.size()) {
      return AddError(fmt::format("--{}: expected a value", flag.name()));
    }
    Set(flag, arguments_[next_++]);
  }

  void Set(Flag& flag, const std::string& value) {
    if (!flag.Set(value)) AddError(fmt::format("--{}: cannot read \"{}\"", flag.name(), value));
  }

  const std::vector<std::string> arguments_;
  size_t next_ = 1;  // index of the argument to read next
  FlagTable& table_;
  bool asks_for_help_ = false;
  bool asks_for_version_ = false;
  std::string errors_;
};

// "  --name   help [range; default: value]". A line that is too long goes on below the help.
void AppendFlag(const Flag& flag, size_t help_column, std::string& out) {
  constexpr size_t kMaxColumns = 100;
  std::vector<std::string> words =
      absl::StrSplit(absl::string_view(flag.help().data(), flag.help().size()), ' ');
  std::string notes = flag.RangeText();
  if (!flag.default_text().empty()) {
    notes += fmt::format("{}default: {}", notes.empty() ? "" : "; ", flag.default_text());
  }
  if (!notes.empty()) words.push_back(fmt::format("[{}]", notes));
  std::string line = fmt::format("  --{:<{}}", flag.name(), help_column - 4);
  for (const std::string& word : words) {
    const bool is_first = line.size() == help_column;
    if (!is_first && line.size() + 1 + word.size() > kMaxColumns) {
      out += line + "\n";
      line.assign(help_column, ' ');
    } else if (!is_first) {
      line += ' ';
    }
    line += word;
  }
  out += line + "\n";
}

}  // namespace

std::string HelpText(std::string_view usage, const FlagTable& table) {
  size_t longest = 0;
  for (const FlagGroup& group : table) {
    for (const Flag& flag : group.flags) longest = std::max(longest, flag.name().size());
  }
  std::string out = fmt::format("{}\n", usage);
  for (const FlagGroup& group : table) {
    out += fmt::format("\n{}:\n", group.title);
    for (const Flag& flag : group.flags) AppendFlag(flag, longest + 6, out);
  }
  return out;
}

absl::Status ParseCommandLine(int argc, char** argv, std::string_view usage, FlagTable& table) {
  ArgumentReader reader(std::vector<std::string>(argv, argv + argc), table);
  reader.Run();
  if (reader.asks_for_help()) {
    std::fputs(HelpText(usage, table).c_str(), stdout);
    std::exit(0);
  }
  if (reader.asks_for_version()) {
    const std::string program = std::filesystem::path(argv[0]).filename();
    std::printf("%s\n", VersionText(program).c_str());
    std::exit(0);
  }
  return reader.status();
}

absl::Status JoinErrors(const absl::Status& first, const absl::Status& second) {
  if (first.ok()) return second;
  if (second.ok()) return first;
  return InvalidArgument("{}\n{}", Message(first), Message(second));
}

}  // namespace lockstep
