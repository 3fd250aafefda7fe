#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string_view>

namespace lockstep {

// The numbers that control how a token is sampled, with all defaults resolved. They have the same
// names everywhere: in both protocols, in JSON, on the host and on the device. The sampler's
// header, kernels/sampling/sample.h, explains them. Each default turns its number off.
struct SamplingNumbers {
  float temperature = 1.0f;  // 0: greedy
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  uint32_t top_k = 0;  // 0: off

  constexpr bool has_penalties() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1;
  }

  friend bool operator==(const SamplingNumbers&, const SamplingNumbers&) = default;
};

// All code that reads, writes or checks sampling numbers goes through kSamplingNumbers. A new
// number is a member above and an entry there.
struct SamplingNumber {
  using Real = float SamplingNumbers::*;
  using Whole = uint32_t SamplingNumbers::*;

  std::string_view name;
  // One of the two is set. A whole number has no range; in JSON -1 means 0 as well.
  Real real = nullptr;
  Whole whole = nullptr;
  std::string_view expected = {};
  // For real numbers. False for NaN and infinities.
  bool (*holds)(float value) = nullptr;
};

// Below this, logits / temperature might overflow.
inline constexpr float kMinTemperature = 1e-3f;
// Clients and models write smaller values for "almost greedy". They are raised to this one, as in
// vLLM.
constexpr float RaisedTemperature(float temperature) {
  return temperature > 0 && temperature < kMinTemperature ? kMinTemperature : temperature;
}

inline constexpr SamplingNumber kSamplingNumbers[] = {
    {.name = "temperature",
     .real = &SamplingNumbers::temperature,
     .expected = "0 or a number in [0.001, 100]",
     .holds = [](float value) { return value == 0 || (value >= kMinTemperature && value <= 100); }},
    {.name = "top_p",
     .real = &SamplingNumbers::top_p,
     .expected = "a number in (0, 1]",
     .holds = [](float value) { return value > 0 && value <= 1; }},
    {.name = "min_p",
     .real = &SamplingNumbers::min_p,
     .expected = "a number in [0, 1]",
     .holds = [](float value) { return value >= 0 && value <= 1; }},
    {.name = "presence_penalty",
     .real = &SamplingNumbers::presence_penalty,
     .expected = "a number in [-2, 2]",
     .holds = [](float value) { return value >= -2 && value <= 2; }},
    {.name = "frequency_penalty",
     .real = &SamplingNumbers::frequency_penalty,
     .expected = "a number in [-2, 2]",
     .holds = [](float value) { return value >= -2 && value <= 2; }},
    {.name = "repetition_penalty",
     .real = &SamplingNumbers::repetition_penalty,
     .expected = "a number in (0, 10]",
     .holds = [](float value) { return value > 0 && value <= 10; }},
    {.name = "top_k",
     .whole = &SamplingNumbers::top_k,
     .expected = "-1 or an integer from 0 to 4294967295"},
};

// INVALID_ARGUMENT "PREFIXtop_p: expected a number in (0, 1], got 1.5" for the first number out of
// range.
absl::Status CheckSamplingNumbers(const SamplingNumbers& numbers, std::string_view prefix);

}  // namespace lockstep
