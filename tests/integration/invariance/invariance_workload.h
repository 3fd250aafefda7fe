#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "router/core/messages/request.h"
#include "tests/integration/serving_harness.h"

namespace lockstep::testing {

// The engine that every worker of these tests announces (WorkerLimits::constraint_engine).
inline constexpr uint64_t kTestConstraintEngine = 1;

struct WorkloadShape {
  uint32_t num_requests = 200;
  uint32_t vocab_size = 0;
  uint32_t max_prompt_tokens = 96;
  uint32_t max_new_tokens = 16;
  uint32_t num_long_requests = 0;  // prompts of long_prompt_tokens, to cross attention borders
  uint32_t long_prompt_tokens = 0;
  std::vector<TokenId> stop_token_ids;
};

// Requests of every kind: greedy, sampled with every filter, penalised, biased, restricted, n > 1,
// with logprobs and prompt_logprobs, salted. Prompts are cut from a few common stems at lengths
// around block borders, so that they hit one another's prefixes at every border.
std::vector<std::shared_ptr<const router::Request>> MakeWorkload(const WorkloadShape& shape,
                                                                 uint64_t seed);

// Lives of a worker with `num_restarts` losses, each with other (small) pools, step budgets and
// slots.
std::vector<WorkerLife> AdversarialLives(const worker::ForwardModelInfo& info,
                                         uint32_t num_restarts, uint32_t min_blocks, uint64_t seed);

// Every request alone on a fresh, roomy worker: the reference that any schedule must reproduce.
Records RunAlone(const WorkerUnderTest& worker,
                 const std::vector<std::shared_ptr<const router::Request>>& requests);

// All requests together through `lives`.
Records RunTogether(const WorkerUnderTest& worker,
                    const std::vector<std::shared_ptr<const router::Request>>& requests,
                    const std::vector<WorkerLife>& lives, uint64_t seed, ScheduleCounts* counts);

// The first `limit` differences, in words; empty when equal.
std::vector<std::string> Differences(const Records& alone, const Records& together, size_t limit);

}  // namespace lockstep::testing
