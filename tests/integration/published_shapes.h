#pragma once

#include <string>

#include "tests/integration/invariance/invariance_check.h"

namespace lockstep::testing {

// A published shape with few layers and random weights.
ModelCase Qwen3Shape(const std::string& name, int hidden_size, int intermediate_size, int num_heads,
                     int head_dim = 128);

}  // namespace lockstep::testing
