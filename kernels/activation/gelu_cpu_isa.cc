#include <cmath>

#include "kernels/activation/gelu_isa.h"
#include "kernels/core/vector_math.h"

namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

// (1 + tanh(z)) / 2 = 1 / (1 + e^-2z).
[[gnu::always_inline]] inline float GeluTanh(float x) {
  constexpr float kMinusTwiceSqrtTwoOverPi = -1.595769122f;
  const float exponent = kMinusTwiceSqrtTwoOverPi * (x + 0.044715f * (x * x * x));
  return x / (1.0f + Exp(exponent));
}

// erfc keeps its relative precision where x is very negative.
inline float GeluErf(float x) {
  constexpr float kMinusSqrtHalf = -0.7071067812f;
  return 0.5f * x * std::erfc(x * kMinusSqrtHalf);
}

}  // namespace

void GeluRows(const GeluParams& params, int64_t row_begin, int64_t row_end) {
  const BFloat16* const input = params.input;
  BFloat16* const output = params.output;
  const int64_t begin = row_begin * params.size;
  const int64_t end = row_end * params.size;
  if (params.form == GeluForm::kTanh) {
    for (int64_t i = begin; i < end; ++i) output[i] = ToBFloat16(GeluTanh(ToFloat(input[i])));
  } else {
    for (int64_t i = begin; i < end; ++i) output[i] = ToBFloat16(GeluErf(ToFloat(input[i])));
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
