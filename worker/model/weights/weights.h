#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/core/bfloat16.h"
#include "kernels/gemm/packed_weights.h"
#include "kernels/gemm/weight_matrix.h"
#include "worker/memory/arena.h"
#include "worker/model/plan/enum_array.h"
#include "worker/model/plan/part.h"

namespace lockstep::worker {

// The weights of one part. Of a linear part a rank has its share of the outputs. Matrices are in
// bf16, in the backend's order (weight_plan.h), or packed. Vectors are fp32, as exact as the file.
// A pointer is null if the part has no such weights.
struct PartWeights {
  kernels::WeightMatrix matrix = {};        // of a linear part: [num_outputs, num_inputs]
  const kernels::BFloat16* rows = nullptr;  // of an embedding: [num_outputs, num_inputs]
  const float* vector = nullptr;            // of a norm: [num_outputs]
  const float* bias = nullptr;              // [num_outputs]
};

using LayerWeights = EnumArray<LayerPart, PartWeights>;

// Names a part: one of a layer, or one of the model.
struct PartPlace {
  int64_t layer = -1;  // -1: of the model
  LayerPart layer_part = LayerPart::kCount;
  ModelPart model_part = ModelPart::kCount;
};

struct ModelWeights {
  Arena storage;
  Arena unpacked_storage;  // of matrices in bf16 that were to be packed, and could not be
  std::vector<std::unique_ptr<kernels::PackedWeights>> packed;
  EnumArray<ModelPart, PartWeights> model;
  std::vector<LayerWeights> layers;

  PartWeights& At(const PartPlace& place) {
    if (place.layer < 0) return model[place.model_part];
    return layers[static_cast<size_t>(place.layer)][place.layer_part];
  }
  uint64_t num_bytes() const {
    uint64_t num_bytes = storage.used_bytes() + unpacked_storage.used_bytes();
    for (const auto& weights : packed) num_bytes += static_cast<uint64_t>(weights->num_bytes());
    return num_bytes;
  }
};

}  // namespace lockstep::worker
