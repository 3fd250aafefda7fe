#pragma once

#include "common/check.h"
#include "common/model_files/model_family.h"
#include "common/status.h"
#include "worker/model/plan/model_plan.h"

namespace lockstep::worker {

// Of a model that is small, and whose sizes are all different.
inline ModelConfig SmallConfig() {
  ModelConfig config;
  config.family = FindModelFamily("qwen3");
  config.name = "small";
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 70;
  config.max_context_tokens = 64;
  return config;
}

// Of a config that is known to be valid.
inline ModelPlan PlanOf(const ModelConfig& config) {
  absl::StatusOr<ModelPlan> plan = MakeModelPlan(config);
  LOCKSTEP_CHECK(plan.ok(), "{}", Message(plan.status()));
  return *std::move(plan);
}

}  // namespace lockstep::worker
