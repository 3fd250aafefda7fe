#pragma once

#include <vector>

#include "kernels/rope/rope_table.h"
#include "worker/model/plan/model_plan.h"

namespace lockstep::worker {

// A table for each of the plan's rotations: cosines and sines of the rotation angles of q and k,
// for each position up to max_context_tokens. With learned positions a rotation changes nothing:
// cosines are 1 and sines 0.
std::vector<kernels::RopeTable> MakeRotations(const ModelPlan& plan);

}  // namespace lockstep::worker
