#pragma once

#include "worker/model/layout/model_spec.h"

namespace lockstep::worker {

// Of a model that is small, and whose sizes are all different.
inline ModelSpec SmallSpec() {
  ModelSpec spec;
  spec.hidden_size = 32;
  spec.intermediate_size = 48;
  spec.num_layers = 2;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.vocab_size = 70;
  spec.max_context_tokens = 64;
  return spec;
}

}  // namespace lockstep::worker
