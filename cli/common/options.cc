#include "cli/common/options.h"

#include <absl/strings/numbers.h>
#include <absl/time/time.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "common/nearest.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

const OptionSpec* FindOption(std::span<const OptionSpec> options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const OptionSpec& option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

std::string UnknownOption(std::span<const OptionSpec> options, const std::string& name) {
  std::vector<std::string_view> names;
  for (const OptionSpec& option : options) names.push_back(option.name);
  const std::optional<std::string_view> nearest = Nearest(name, names);
  return fmt::format("--{}: unknown option{}", name,
                     nearest ? fmt::format("; did you mean --{}?", *nearest) : "");
}

}  // namespace

Arguments Arguments::Parse(std::span<const OptionSpec> options,
                           std::span<const std::string> words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      arguments.rest_.assign(words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (word.starts_with("--")) {
      arguments.ParseOption(options, words, i);
    } else if (word.size() > 1 && word.starts_with('-')) {
      arguments.AddError(fmt::format("{}: options have two dashes and a name", word));
    } else {
      arguments.positionals_.push_back(word);
    }
  }
  return arguments;
}

void Arguments::ParseOption(std::span<const OptionSpec> options, std::span<const std::string> words,
                            size_t& index) {
  const std::string& word = words[index];
  const size_t equals = word.find('=');
  std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::replace(name.begin(), name.end(), '_', '-');
  const OptionSpec* const option = FindOption(options, name);
  if (option == nullptr) return AddError(UnknownOption(options, name));
  std::vector<std::string>& values = values_[name];
  if (option->placeholder.empty()) {
    if (equals != std::string::npos) AddError(fmt::format("--{}: takes no value", name));
    values.push_back("true");
  } else if (equals != std::string::npos) {
    values.push_back(word.substr(equals + 1));
  } else if (index + 1 < words.size() && words[index + 1] != "--") {
    values.push_back(words[++index]);
  } else {
    AddError(fmt::format("--{}: expected a value, as --{} {}", name, name, option->placeholder));
  }
}

const std::string* Arguments::Last(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found == values_.end() || found->second.empty() ? nullptr : &found->second.back();
}

void Arguments::Read(std::string_view name, std::string& value) {
  if (const std::string* const text = Last(name)) value = *text;
}

void Arguments::Read(std::string_view name, std::optional<std::string>& value) {
  if (const std::string* const text = Last(name)) value = *text;
}

void Arguments::Read(std::string_view name, bool& value) { value = value || Has(name); }

void Arguments::ReadAll(std::string_view name, std::vector<std::string>& values) const {
  if (const auto found = values_.find(std::string(name)); found != values_.end()) {
    values = found->second;
  }
}

void Arguments::ReadNumber(std::string_view name, double min, double max,
                           std::optional<double>& value) {
  const std::string* const text = Last(name);
  if (text == nullptr) return;
  double number = 0;
  if (absl::SimpleAtod(*text, &number) && number >= min && number <= max) {
    value = number;
  } else {
    AddError(
        fmt::format("--{}: expected a number from {} to {}, got \"{}\"", name, min, max, *text));
  }
}

void Arguments::ReadSeconds(std::string_view name, double min, double max,
                            std::optional<double>& value) {
  const std::string* const text = Last(name);
  if (text == nullptr) return;
  double seconds = 0;
  absl::Duration time;
  bool ok = absl::SimpleAtod(*text, &seconds);
  if (!ok && absl::ParseDuration(*text, &time)) {
    ok = true;
    seconds = absl::ToDoubleSeconds(time);
  }
  if (ok && seconds >= min && seconds <= max) {
    value = seconds;
  } else {
    AddError(fmt::format("--{}: expected a time from {} s to {} s, as 10 or 10s, got \"{}\"", name,
                         min, max, *text));
  }
}

void Arguments::ReadInteger(std::string_view name, uint64_t min, uint64_t max,
                            std::optional<uint64_t>& value) {
  const std::string* const text = Last(name);
  if (text == nullptr) return;
  uint64_t number = 0;
  if (absl::SimpleAtoi(*text, &number) && number >= min && number <= max) {
    value = number;
  } else {
    AddError(fmt::format("--{}: expected a whole number from {} to {}, got \"{}\"", name, min, max,
                         *text));
  }
}

void Arguments::ReadChoice(std::string_view name, std::span<const std::string_view> choices,
                           std::string& value) {
  const std::string* const text = Last(name);
  if (text == nullptr) return;
  if (std::find(choices.begin(), choices.end(), *text) != choices.end()) {
    value = *text;
  } else {
    AddError(
        fmt::format("--{}: expected one of {}, got \"{}\"", name, fmt::join(choices, ", "), *text));
  }
}

void Arguments::ExpectNoRest() {
  if (!rest_.empty()) AddError("-- : this verb passes no flags on");
}

void Arguments::ExpectPositionals(std::span<const std::string_view> names) {
  for (size_t i = positionals_.size(); i < names.size(); ++i) {
    AddError(fmt::format("{} is missing", names[i]));
  }
  for (size_t i = names.size(); i < positionals_.size(); ++i) {
    AddError(fmt::format("unexpected argument \"{}\"", positionals_[i]));
  }
}

absl::Status Arguments::Finish() const {
  if (errors_.empty()) return absl::OkStatus();
  return InvalidArgument("{}", fmt::join(errors_, "\n"));
}

}  // namespace lockstep::cli
