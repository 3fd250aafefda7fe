#include <limits>

#include "kernels/core/vector_math.h"
#include "kernels/sampling/noise/exp_terms_isa.h"

namespace lockstep::kernels::LOCKSTEP_ISA {

void ExpTerms(const float* __restrict scores, int64_t count, float max, float temperature,
              float* __restrict terms) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr float kHighest = std::numeric_limits<float>::max();
  for (int64_t i = 0; i < count; ++i) {
    const float number = scores[i] > kLowest ? scores[i] : kLowest;
    const float finite = number < kHighest ? number : kHighest;
    terms[i] = Exp((finite - max) / temperature);
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
