#pragma once

#include <cstdint>

#include "router/core/messages/step.h"

// Steps that more than one test of the codec looks at.
namespace lockstep::router {

// Three slots: 5 decodes, 2 prefills four tokens, 9 decodes and grows.
inline StepPlan MixedPlan() {
  StepPlan plan;
  plan.step_id = 7;
  plan.rows = {{.slot = 5, .num_tokens = 1, .new_blocks = {}},
               {.slot = 2, .num_tokens = 4, .new_blocks = {{.ids = {31, 30}}}},
               {.slot = 9, .num_tokens = 1, .new_blocks = {{.ids = {12}}}}};
  return plan;
}

inline StepPlan DecodePlan(uint32_t num_rows) {
  StepPlan plan;
  plan.step_id = 1234;
  plan.num_decode_tokens = num_rows;
  for (uint32_t row = 0; row < num_rows; ++row) {
    plan.rows.push_back({.slot = row, .num_tokens = 1, .new_blocks = {}});
  }
  return plan;
}

}  // namespace lockstep::router
