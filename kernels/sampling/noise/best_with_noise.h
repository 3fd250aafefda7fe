#pragma once

#include <cstdint>
#include <span>

#include "common/ids.h"
#include "kernels/core/stream.h"
#include "kernels/sampling/noise/philox.h"

// The heart of a draw: the best score of a row after noise was added (gumbel_noise.h).
namespace lockstep::kernels {

// Compares (score - max) / temperature + noise. Leaves out tokens with e^((score - max) /
// temperature) below min_p.
struct NoisyDraw {
  DrawKey key = {};
  float max = 0;  // the row's best score, finite
  float temperature = 1;
  float inverse_temperature = 1;  // finite
  float min_p = 0;
};

struct NoisyToken {
  float value = 0;  // score with noise
  TokenId token = 0;
};

// The better of `best` and the best of the row; ties go to the lowest id. NaN counts as -inf, +inf
// as the largest finite number. The bits are the same on every instruction set.
NoisyToken BestWithNoise(const Stream& stream, const NoisyDraw& draw, std::span<const float> row,
                         NoisyToken best);

// The noise of one token.
float NoiseOf(const DrawKey& key, TokenId token);

}  // namespace lockstep::kernels
