#include "worker/model/rotation.h"

#include <cstdint>

namespace lockstep::worker {

kernels::RopeTable MakeRotation(const ModelSpec& spec) {
  const auto head_dim = static_cast<uint32_t>(spec.head_dim);
  kernels::RopeFrequencies frequencies = {.inverse = std::vector<float>(head_dim / 2, 0.0f)};
  if (spec.positions == PositionKind::kRotary) {
    frequencies = kernels::ComputeRopeFrequencies(spec.rope, head_dim);
  }
  return kernels::MakeRopeTable(frequencies, static_cast<uint32_t>(spec.max_context_tokens));
}

}  // namespace lockstep::worker
