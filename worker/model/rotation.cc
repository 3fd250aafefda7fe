#include "worker/model/rotation.h"

#include <cstdint>

namespace lockstep::worker {

std::vector<kernels::RopeTable> MakeRotations(const ModelPlan& plan) {
  std::vector<kernels::RopeTable> tables;
  for (const RotationPlan& rotation : plan.rotations) {
    const auto head_dim = static_cast<uint32_t>(rotation.head_dim);
    kernels::RopeFrequencies frequencies = {.inverse = std::vector<float>(head_dim / 2, 0.0f)};
    if (plan.positions == PositionKind::kRotary) {
      frequencies = kernels::ComputeRopeFrequencies(rotation.rope, head_dim);
    }
    tables.push_back(
        kernels::MakeRopeTable(frequencies, static_cast<uint32_t>(plan.max_context_tokens)));
  }
  return tables;
}

}  // namespace lockstep::worker
