#include "worker/model/rotation.h"

#include <cstdint>

namespace lockstep::worker {

kernels::RopeTable MakeRotation(const ModelPlan& plan) {
  const RotationPlan& rotation = plan.rotations.front();
  const auto head_dim = static_cast<uint32_t>(rotation.head_dim);
  kernels::RopeFrequencies frequencies = {.inverse = std::vector<float>(head_dim / 2, 0.0f)};
  if (plan.positions == PositionKind::kRotary) {
    frequencies = kernels::ComputeRopeFrequencies(rotation.rope, head_dim);
  }
  return kernels::MakeRopeTable(frequencies, static_cast<uint32_t>(plan.max_context_tokens));
}

}  // namespace lockstep::worker
