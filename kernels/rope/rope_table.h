#pragma once

#include <cstdint>
#include <vector>

#include "common/model_files/model_config.h"

namespace lockstep::kernels {

// Angular frequencies per pair of dims and the factor on cos and sin, as transformers'
// modeling_rope_utils.py computes them for the default, linear, llama3 and yarn types, or by the
// divisors that a GGUF file carries in place of the llama3 parameters.
struct RopeFrequencies {
  std::vector<float> inverse;  // [head_dim / 2]
  float attention_factor = 1.0f;
};

RopeFrequencies ComputeRopeFrequencies(const RopeConfig& config, uint32_t head_dim);

struct RopeTable {
  std::vector<float> cos;  // [num_positions, head_dim / 2]
  std::vector<float> sin;
};

RopeTable MakeRopeTable(const RopeFrequencies& frequencies, uint32_t num_positions);

}  // namespace lockstep::kernels
