#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "worker/model/plan/model_plan.h"

namespace lockstep::worker {

// A rank of a tensor-parallel group. The group splits the outputs of every product, never its
// inputs: each rank computes 1 / degree of the outputs, with the sums that one device alone would
// compute. So the bits do not depend on the degree (docs/decisions/0012-tensor-parallel.md).
struct TensorRank {
  int64_t degree = 1;
  int64_t rank = 0;  // 0 .. degree - 1

  // This rank's share of `size` things: Share(size) of them, from Begin(size) on. The degree
  // divides `size`.
  int64_t Share(int64_t size) const { return size / degree; }
  int64_t Begin(int64_t size) const { return Share(size) * rank; }
};

// UNIMPLEMENTED that names every size of the model that `degree` does not divide.
absl::Status CheckDegree(const ModelPlan& plan, int64_t degree);

// What one rank computes: its heads, its part of the MLPs, and its outputs of every linear part.
// The inputs of these parts, the hidden size and the vocabulary stay whole.
ModelPlan ShareOf(const ModelPlan& plan, const TensorRank& rank);

}  // namespace lockstep::worker
