#include "common/sampling_numbers.h"

#include "common/status.h"

namespace lockstep {

absl::Status CheckSamplingNumbers(const SamplingNumbers& numbers, std::string_view prefix) {
  for (const SamplingNumber& number : kSamplingNumbers) {
    if (number.real == nullptr || number.holds(numbers.*number.real)) continue;
    return InvalidArgument("{}{}: expected {}, got {}", prefix, number.name, number.expected,
                           numbers.*number.real);
  }
  return absl::OkStatus();
}

}  // namespace lockstep
