#include "kernels/rope/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/check.h"

namespace lockstep::kernels {
namespace {

// theta^(-2i / head_dim), in fp32 like the reference.
std::vector<float> PlainFrequencies(double theta, uint32_t head_dim) {
  std::vector<float> inverse(head_dim / 2);
  for (uint32_t i = 0; i < head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    inverse[i] = 1.0f / std::pow(static_cast<float>(theta), exponent);
  }
  return inverse;
}

// Llama 3.1: frequencies of long wavelengths are divided by the factor, those of short ones are
// kept, and those between are blended.
void ApplyLlama3(const RopeConfig& config, std::vector<float>& inverse) {
  const double original = config.original_max_positions;
  const double longest_kept = original / config.high_freq_factor;
  const double shortest_divided = original / config.low_freq_factor;
  for (float& frequency : inverse) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < longest_kept) continue;
    if (wavelength > shortest_divided) {
      frequency = static_cast<float>(frequency / config.factor);
      continue;
    }
    const double smooth = (original / wavelength - config.low_freq_factor) /
                          (config.high_freq_factor - config.low_freq_factor);
    frequency = static_cast<float>((1.0 - smooth) * frequency / config.factor + smooth * frequency);
  }
}

void ApplyDivisors(const std::vector<float>& divisors, std::vector<float>& inverse) {
  LOCKSTEP_CHECK(divisors.size() == inverse.size(), "{} divisors for {} rotary frequencies",
                 divisors.size(), inverse.size());
  for (size_t i = 0; i < inverse.size(); ++i) inverse[i] /= divisors[i];
}

double YarnMagnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// YaRN, arXiv 2309.00071, section 3.2: the dim with `num_rotations` rotations in the original
// context.
double YarnCorrectionDim(double num_rotations, uint32_t head_dim, const RopeConfig& config) {
  return head_dim *
         std::log(config.original_max_positions / (num_rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.theta));
}

void ApplyYarn(const RopeConfig& config, uint32_t head_dim, RopeFrequencies& frequencies) {
  double low = YarnCorrectionDim(config.yarn_beta_fast, head_dim, config);
  double high = YarnCorrectionDim(config.yarn_beta_slow, head_dim, config);
  if (config.yarn_truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;  // as the reference: no division by zero
  for (size_t i = 0; i < frequencies.inverse.size(); ++i) {
    const double extrapolated = frequencies.inverse[i];
    const double interpolated = extrapolated / config.factor;
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies.inverse[i] = static_cast<float>(interpolated * ramp + extrapolated * (1.0 - ramp));
  }
  if (config.yarn_attention_factor) {
    frequencies.attention_factor = static_cast<float>(*config.yarn_attention_factor);
  } else if (config.yarn_mscale && config.yarn_mscale_all_dim) {
    frequencies.attention_factor =
        static_cast<float>(YarnMagnitude(config.factor, *config.yarn_mscale) /
                           YarnMagnitude(config.factor, *config.yarn_mscale_all_dim));
  } else {
    frequencies.attention_factor = static_cast<float>(YarnMagnitude(config.factor, 1.0));
  }
}

}  // namespace

RopeFrequencies ComputeRopeFrequencies(const RopeConfig& config, uint32_t head_dim) {
  RopeFrequencies frequencies{.inverse = PlainFrequencies(config.theta, head_dim)};
  switch (config.scaling) {
    case RopeScalingKind::kNone:
      break;
    case RopeScalingKind::kLinear:
      for (float& frequency : frequencies.inverse) {
        frequency = static_cast<float>(frequency / config.factor);
      }
      break;
    case RopeScalingKind::kLlama3:
      if (config.frequency_divisors.empty()) {
        ApplyLlama3(config, frequencies.inverse);
      } else {
        ApplyDivisors(config.frequency_divisors, frequencies.inverse);
      }
      break;
    case RopeScalingKind::kYarn:
      ApplyYarn(config, head_dim, frequencies);
      break;
  }
  return frequencies;
}

RopeTable MakeRopeTable(const RopeFrequencies& frequencies, uint32_t num_positions) {
  const size_t half = frequencies.inverse.size();
  RopeTable table;
  table.cos.resize(num_positions * half);
  table.sin.resize(num_positions * half);
  for (uint32_t position = 0; position < num_positions; ++position) {
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies.inverse[i];
      table.cos[position * half + i] = std::cos(angle) * frequencies.attention_factor;
      table.sin[position * half + i] = std::sin(angle) * frequencies.attention_factor;
    }
  }
  return table;
}

}  // namespace lockstep::kernels
