#include "common/flag.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>

namespace lockstep {
namespace {

// "10" or "1.5", without a unit.
bool IsPlainNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool ReadFlag(const std::string& text, std::string& value) {
  value = text;
  return true;
}

bool ReadFlag(const std::string& text, std::vector<std::string>& value) {
  value.clear();
  if (!text.empty()) value = absl::StrSplit(text, ',');
  return true;
}

bool ReadFlag(const std::string& text, bool& value) {
  return absl::SimpleAtob(absl::StripAsciiWhitespace(text), &value);
}

template <std::integral T>
bool ReadFlag(const std::string& text, T& value) {
  const absl::string_view number = absl::StripAsciiWhitespace(text);
  const bool is_hexadecimal = number.size() > 2 && number[0] == '0' && (number[1] | 0x20) == 'x';
  return is_hexadecimal ? absl::SimpleHexAtoi(number, &value) : absl::SimpleAtoi(number, &value);
}

bool ReadFlag(const std::string& text, double& value) { return absl::SimpleAtod(text, &value); }

bool ReadFlag(const std::string& text, absl::Duration& value) {
  return absl::ParseDuration(IsPlainNumber(text) ? text + "s" : text, &value);
}

template <typename T>
bool ReadFlag(const std::string& text, std::optional<T>& value) {
  value.reset();
  return text.empty() || ReadFlag(text, value.emplace());
}

std::string ShowFlag(const std::string& value) { return value; }
std::string ShowFlag(const std::vector<std::string>& value) {
  return fmt::format("{}", fmt::join(value, ","));
}
std::string ShowFlag(absl::Duration value) { return absl::FormatDuration(value); }
template <typename T>
  requires std::is_arithmetic_v<T>
std::string ShowFlag(T value) {
  return fmt::format("{}", value);
}
template <typename T>
std::string ShowFlag(const std::optional<T>& value) {
  return value.has_value() ? ShowFlag(*value) : "";
}

bool HasBounds(const FlagRange& range) {
  return range.min != -FlagRange::kUnbounded || range.max != FlagRange::kUnbounded;
}

// In what the bounds are: a number, or seconds. None for a text.
std::optional<double> Measure(double value) { return value; }
std::optional<double> Measure(absl::Duration value) { return absl::ToDoubleSeconds(value); }
std::optional<double> Measure(const std::string&) { return std::nullopt; }
std::optional<double> Measure(const std::vector<std::string>&) { return std::nullopt; }
template <typename T>
std::optional<double> Measure(const std::optional<T>& value) {
  return value.has_value() ? Measure(*value) : std::nullopt;
}

// The value behind a pointer of FlagField.
template <typename T>
const T& ValueOf(const T* field) {
  return *field;
}
const std::vector<std::string>& ValueOf(const RepeatedText& field) { return *field.values; }

// "1024", "2^20".
std::string ShowNumber(double value) {
  constexpr uint64_t kLarge = 1 << 20;
  const bool is_whole = value >= 0 && value < 1e15 && value == std::floor(value);
  const uint64_t whole = is_whole ? static_cast<uint64_t>(value) : 0;
  if (whole < kLarge || !std::has_single_bit(whole)) return fmt::format("{}", value);
  return fmt::format("2^{}", std::countr_zero(whole));
}

}  // namespace

std::string Flag::ValueText() const {
  return std::visit([](const auto& field) { return ShowFlag(ValueOf(field)); }, field_);
}

std::string Flag::RangeText() const {
  if (!range_.words.empty()) return fmt::format("{}", fmt::join(range_.words, ", "));
  if (!HasBounds(range_)) return "";
  const bool is_time = std::holds_alternative<absl::Duration*>(field_);
  const auto show = [is_time](double bound) {
    return is_time ? absl::FormatDuration(absl::Seconds(bound)) : ShowNumber(bound);
  };
  const bool ends = range_.max != FlagRange::kUnbounded;
  if (range_.excludes_min) {
    return fmt::format("above {}{}", show(range_.min), ends ? ", to " + show(range_.max) : "");
  }
  if (!ends) return fmt::format("from {}", show(range_.min));
  return fmt::format("{}{} to {}", range_.includes_zero ? "0, " : "", show(range_.min),
                     show(range_.max));
}

bool Flag::Set(const std::string& text) {
  const auto set = [&]<typename T>(T* field) {
    T value{};
    if (!ReadFlag(text, value)) return false;
    *field = std::move(value);
    return true;
  };
  if (const auto* const repeated = std::get_if<RepeatedText>(&field_)) {
    if (!std::exchange(is_given_, true)) repeated->values->clear();
    repeated->values->push_back(text);
    return true;
  }
  return std::visit(
      [&](const auto& field) {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(field)>>) return set(field);
        return false;  // done above
      },
      field_);
}

bool Flag::InRange() const {
  if (!range_.words.empty()) {
    const std::string value = ValueText();
    return std::ranges::find(range_.words, value) != range_.words.end();
  }
  if (!HasBounds(range_)) return true;
  const std::optional<double> value =
      std::visit([](const auto& field) { return Measure(ValueOf(field)); }, field_);
  if (!value.has_value() || (range_.includes_zero && *value == 0)) return true;
  // NaN is in no range.
  return *value <= range_.max && (range_.excludes_min ? *value > range_.min : *value >= range_.min);
}

void Flag::CheckRange(Violations& violations) const {
  if (InRange()) return;
  if (!range_.words.empty()) {
    const std::vector<std::string_view> first(range_.words.begin(), range_.words.end() - 1);
    return violations.Add(fmt::format("--{}: must be {} or {}, got \"{}\"", name_,
                                      fmt::join(first, ", "), range_.words.back(), ValueText()));
  }
  const bool is_time = std::holds_alternative<absl::Duration*>(field_);
  const auto show = [is_time](double bound) {
    return is_time ? absl::FormatDuration(absl::Seconds(bound)) : fmt::format("{}", bound);
  };
  const std::string bounds =
      range_.max == FlagRange::kUnbounded ? RangeText()
      : range_.excludes_min
          ? fmt::format("above {} and at most {}", show(range_.min), show(range_.max))
          : fmt::format("in [{}, {}]", show(range_.min), show(range_.max));
  violations.Add(fmt::format("--{}: must be {}, got {}", name_, bounds, ValueText()));
}

Flag* FindFlag(FlagTable& table, std::string_view name) {
  for (FlagGroup& group : table) {
    for (Flag& flag : group.flags) {
      if (flag.name() == name) return &flag;
    }
  }
  return nullptr;
}

void CheckRanges(const FlagTable& table, Violations& violations) {
  for (const FlagGroup& group : table) {
    for (const Flag& flag : group.flags) flag.CheckRange(violations);
  }
}

}  // namespace lockstep
