#pragma once

#include <vector>

#include "kernels/core/bfloat16.h"
#include "kernels/gemm/packed_matrix.h"
#include "worker/memory/arena.h"

namespace lockstep::worker {

// Matrices are [outputs, inputs] in bf16, packed as the backend reads them (weight_plan.h); vectors
// (norm weights, biases) fp32, as exact as the file. A null pointer is a part that the model does
// not have.
struct LayerWeights {
  const float* attention_norm = nullptr;         // [hidden_size]
  kernels::PackedMatrix qkv;                     // [q_size + 2 * kv_size, hidden_size]: q, k, v
  const float* qkv_bias = nullptr;               // [q_size + 2 * kv_size]
  const float* q_norm = nullptr;                 // [head_dim]
  const float* k_norm = nullptr;                 // [head_dim]
  kernels::PackedMatrix attention_output;        // [hidden_size, q_size]
  const float* attention_output_bias = nullptr;  // [hidden_size]
  const float* mlp_norm = nullptr;               // [hidden_size]
  kernels::PackedMatrix gate_up;                 // [2 * intermediate_size, hidden_size]: gate, up
  const float* gate_up_bias = nullptr;           // [2 * intermediate_size]
  kernels::PackedMatrix down;                    // [hidden_size, intermediate_size]
  const float* down_bias = nullptr;              // [hidden_size]
};

struct DecoderWeights {
  Arena storage;
  const kernels::BFloat16* token_embedding = nullptr;  // [vocab_size, hidden_size]
  std::vector<LayerWeights> layers;
  const float* final_norm = nullptr;  // [hidden_size]
  kernels::PackedMatrix lm_head;      // [vocab_size, hidden_size]
};

}  // namespace lockstep::worker
