#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace lockstep::cli {

// Numbers of tokens, drawn evenly from [min, max].
struct LengthRange {
  uint32_t min = 1;
  uint32_t max = 1;

  uint32_t Draw(std::mt19937_64& random) const {
    return std::uniform_int_distribution<uint32_t>(min, max)(random);
  }
  friend bool operator==(const LengthRange&, const LengthRange&) = default;
};

// "512": always 512. "512+-50%": 256 to 768. "100-200": 100 to 200. INVALID_ARGUMENT quoting
// `text`.
absl::StatusOr<LengthRange> ParseLengthRange(std::string_view text);
// As ParseLengthRange reads it.
std::string FormatLengthRange(const LengthRange& range);

}  // namespace lockstep::cli
