#pragma once

#include "kernels/rope/rope_table.h"
#include "worker/model/plan/model_plan.h"

namespace lockstep::worker {

// Cosines and sines of the angles by which q and k are rotated, for each position up to
// max_context_tokens. With learned positions the rotation changes nothing: cosines are 1 and sines
// 0.
kernels::RopeTable MakeRotation(const ModelPlan& plan);

}  // namespace lockstep::worker
