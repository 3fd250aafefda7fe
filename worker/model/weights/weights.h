#pragma once

#include <vector>

#include "kernels/core/bfloat16.h"
#include "kernels/gemm/packed_matrix.h"
#include "worker/memory/arena.h"
#include "worker/model/layout/model_layout.h"

namespace lockstep::worker {

// The weights of one part. Of a linear part a rank has its share of the outputs. Matrices are in
// bf16, packed as the backend reads them (weight_plan.h). Vectors are fp32, as exact as the file. A
// pointer is null if the part has no such weights.
struct PartWeights {
  kernels::PackedMatrix matrix = {};        // of a linear part: [num_outputs, num_inputs]
  const kernels::BFloat16* rows = nullptr;  // of an embedding: [num_outputs, num_inputs]
  const float* vector = nullptr;            // of a norm: [num_outputs]
  const float* bias = nullptr;              // [num_outputs]
};

using LayerWeights = EnumArray<LayerPart, PartWeights>;

struct ModelWeights {
  Arena storage;
  EnumArray<ModelPart, PartWeights> model;
  std::vector<LayerWeights> layers;
};

}  // namespace lockstep::worker
