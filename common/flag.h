#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/violations.h"

namespace lockstep {

// A flag that may be given several times. The first value replaces the default, and each further
// value is added.
struct RepeatedText {
  std::vector<std::string>* values;
};

// The field of a configuration that a flag sets. A vector takes one value, split at commas.
using FlagField =
    std::variant<std::string*, std::vector<std::string>*, RepeatedText, bool*, uint32_t*, uint64_t*,
                 double*, absl::Duration*, std::optional<std::string>*, std::optional<int32_t>*,
                 std::optional<uint32_t>*, std::optional<uint64_t>*, std::optional<double>*>;

// The values that a flag takes. A number lies between two bounds, which are seconds for a time. A
// text is one of `words`.
struct FlagRange {
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();

  double min = -kUnbounded;
  double max = kUnbounded;
  bool excludes_min = false;
  bool includes_zero = false;  // although it lies below `min`
  std::vector<std::string_view> words = {};
};
inline FlagRange FromTo(double min, double max) { return {.min = min, .max = max}; }
inline FlagRange AtLeast(double min) { return {.min = min}; }
inline FlagRange Above(double min, double max = FlagRange::kUnbounded) {
  return {.min = min, .max = max, .excludes_min = true};
}
inline FlagRange ZeroOr(double min, double max) {
  return {.min = min, .max = max, .includes_zero = true};
}
inline FlagRange OneOf(std::vector<std::string_view> words) { return {.words = std::move(words)}; }

// A row of a program's table of flags. The field's value when the row is made is the default.
class Flag {
 public:
  // `name` has dashes: "max-slots". `help` says in one line what the value means. Both texts must
  // outlive the row.
  Flag(std::string_view name, FlagField field, std::string_view help, FlagRange range = {})
      : name_(name),
        help_(help),
        field_(field),
        range_(std::move(range)),
        default_text_(ValueText()) {}

  std::string_view name() const { return name_; }
  std::string_view help() const { return help_; }
  const FlagRange& range() const { return range_; }
  // As people write them: "30s". Empty: no text, no number.
  const std::string& default_text() const { return default_text_; }
  std::string ValueText() const;
  // "1 to 64", "above 0, to 1h", "0, 2 to 2^20", "auto, cpu, cuda". Empty: not limited here.
  std::string RangeText() const;

  bool is_switch() const { return std::holds_alternative<bool*>(field_); }
  // Sets the field. False if the text cannot be read, and then the field stays as it is. The range
  // is not checked. A time without a unit is seconds.
  bool Set(const std::string& text);
  // Whether the field's value is in the range. True if the field is unset.
  bool InRange() const;
  // Adds "--max-slots: must be in [0, 64], got 65" if the value is outside the range.
  void CheckRange(Violations& violations) const;

 private:
  std::string_view name_;
  std::string_view help_;
  FlagField field_;
  FlagRange range_;
  std::string default_text_;
  bool is_given_ = false;
};

// What --help shows under one title.
struct FlagGroup {
  std::string_view title;
  std::vector<Flag> flags;
};
using FlagTable = std::vector<FlagGroup>;

// The row of the flag, or null.
Flag* FindFlag(FlagTable& table, std::string_view name);
// Adds a line for each value outside its range.
void CheckRanges(const FlagTable& table, Violations& violations);

}  // namespace lockstep
