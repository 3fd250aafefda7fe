#include "cli/bench/plan/length_range.h"

#include <charconv>
#include <cmath>

#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr uint32_t kMaxLength = 10'000'000;

bool ReadLength(std::string_view text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value <= kMaxLength;
}

// Splits at the first `separator`.
bool Split(std::string_view text, std::string_view separator, std::string_view& left,
           std::string_view& right) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return false;
  left = text.substr(0, at);
  right = text.substr(at + separator.size());
  return true;
}

bool ReadRange(std::string_view text, LengthRange& range) {
  std::string_view left;
  std::string_view right;
  if (Split(text, "+-", left, right)) {
    uint32_t middle = 0;
    uint32_t percent = 0;
    if (!right.ends_with('%')) return false;
    right.remove_suffix(1);
    if (!ReadLength(left, middle) || !ReadLength(right, percent) || percent > 100) return false;
    const double spread = middle * (percent / 100.0);
    range = {.min = static_cast<uint32_t>(std::lround(middle - spread)),
             .max = static_cast<uint32_t>(std::lround(middle + spread))};
    return true;
  }
  if (Split(text, "-", left, right)) {
    return ReadLength(left, range.min) && ReadLength(right, range.max) && range.min <= range.max;
  }
  if (!ReadLength(text, range.min)) return false;
  range.max = range.min;
  return true;
}

}  // namespace

absl::StatusOr<LengthRange> ParseLengthRange(std::string_view text) {
  LengthRange range;
  if (!ReadRange(text, range) || range.max == 0) {
    return InvalidArgument("expected a number of tokens as 512, 512+-50% or 256-768, got \"{}\"",
                           text);
  }
  if (range.min == 0) range.min = 1;
  return range;
}

std::string FormatLengthRange(const LengthRange& range) {
  return range.min == range.max ? fmt::format("{}", range.min)
                                : fmt::format("{}-{}", range.min, range.max);
}

}  // namespace lockstep::cli
