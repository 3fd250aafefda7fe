#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/attention/paged_attention.h"
#include "kernels/core/bfloat16.h"
#include "worker/memory/arena.h"
#include "worker/model/plan/model_plan.h"
#include "worker/model/plan/tensor_rank.h"

namespace lockstep::worker {

// Where the tokens of a step lie in the pool of one KV group.
struct KvInputs {
  uint64_t* kv_slots = nullptr;                     // [T]: block * 16 + token in block
  kernels::AttentionSequence* sequences = nullptr;  // [T]
};

// All intermediate values of a rank's forward pass, allocated once for the largest step. T stands
// for max_step_tokens, L for max_logits_rows, R for the number of ranks. If kinds of layers differ
// in a size, there is room for the largest.
struct Workspace {
  // `commit` gives the measured arena its memory; by default, host memory.
  static absl::StatusOr<Workspace> Create(
      const ModelPlan& plan, const TensorRank& rank, int64_t max_step_tokens,
      int64_t max_logits_rows,
      const std::function<absl::Status(Arena&)>& commit = [](Arena& arena) {
        return arena.Commit();
      });

  Arena storage;
  kernels::BFloat16* residual = nullptr;   // [T, hidden_size]
  kernels::BFloat16* normed = nullptr;     // [T, hidden_size]
  kernels::BFloat16* qkv = nullptr;        // [T, (q_size + 2 * kv_size) / R]
  kernels::BFloat16* attention = nullptr;  // [T, q_size]
  kernels::BFloat16* delta = nullptr;      // [T, hidden_size]: what is added to the residual next
  kernels::BFloat16* gate_up = nullptr;    // [T, mlp_input_size / R]
  kernels::BFloat16* activated = nullptr;  // [T, intermediate_size]
  // This rank's columns of what the ranks exchange next. [T, columns / R], null if R is 1. They
  // take turns, because on the CPU ranks read each other's (ThreadGroup).
  kernels::BFloat16* exchanged[2] = {};
  kernels::BFloat16* last_residual = nullptr;   // [L, hidden_size]: rows whose logits are wanted
  kernels::BFloat16* last_attention = nullptr;  // [L, q_size]
  uint32_t* positions = nullptr;                // [T]
  std::vector<KvInputs> kv_inputs;              // by KV group
};

}  // namespace lockstep::worker
