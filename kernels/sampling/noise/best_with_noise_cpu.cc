#include "kernels/sampling/noise/best_with_noise.h"
#include "kernels/sampling/noise/best_with_noise_isa.h"
#include "kernels/sampling/noise/gumbel_noise.h"

namespace lockstep::kernels {

NoisyToken BestWithNoise(const Stream& stream, const NoisyDraw& draw, std::span<const float> row,
                         NoisyToken best) {
  LOCKSTEP_DISPATCH(stream, RaiseToBestWithNoise, draw, row.data(),
                    static_cast<int64_t>(row.size()), &best);
  return best;
}

float NoiseOf(const DrawKey& key, TokenId token) {
  return GumbelNoise(NoiseWords(key, token / 4)[token % 4]);
}

}  // namespace lockstep::kernels
