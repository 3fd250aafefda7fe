#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// One option of a verb, as help and completion show it.
struct OptionSpec {
  std::string_view name;         // "log-dir"
  std::string_view placeholder;  // "DIR"; empty: a switch without a value
  std::string_view help;         // one line
};

// The arguments of a verb, split by its options. Values are still text. Parsing never fails: it
// collects all errors, so that one message can name them.
class Arguments {
 public:
  // "--name value", "--name=value", and underscores for dashes. After "--" everything is `rest`.
  static Arguments Parse(std::span<const OptionSpec> options, std::span<const std::string> words);

  const std::vector<std::string>& positionals() const { return positionals_; }
  const std::vector<std::string>& rest() const { return rest_; }
  bool Has(std::string_view name) const { return values_.contains(std::string(name)); }

  // Each reads the last value that was given; ReadAll reads all of them. An absent option leaves
  // `value` as it is. A wrong value becomes an error that Finish returns.
  void Read(std::string_view name, std::string& value);
  void Read(std::string_view name, std::optional<std::string>& value);
  void Read(std::string_view name, bool& value);
  void ReadAll(std::string_view name, std::vector<std::string>& values) const;
  void ReadNumber(std::string_view name, double min, double max, std::optional<double>& value);
  // A time: "10" and "10s" are ten seconds. `min` and `max` are in seconds.
  void ReadSeconds(std::string_view name, double min, double max, std::optional<double>& value);
  void ReadInteger(std::string_view name, uint64_t min, uint64_t max,
                   std::optional<uint64_t>& value);
  void ReadChoice(std::string_view name, std::span<const std::string_view> choices,
                  std::string& value);

  void AddError(std::string error) { errors_.push_back(std::move(error)); }
  void ExpectNoRest();
  // Expects exactly one positional for each name, such as "MODEL".
  void ExpectPositionals(std::span<const std::string_view> names);

  // INVALID_ARGUMENT with every error, one on a line.
  absl::Status Finish() const;

 private:
  void ParseOption(std::span<const OptionSpec> options, std::span<const std::string> words,
                   size_t& index);
  const std::string* Last(std::string_view name) const;

  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positionals_;
  std::vector<std::string> rest_;
  std::vector<std::string> errors_;
};

}  // namespace lockstep::cli
