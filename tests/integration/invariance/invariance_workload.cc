#include "tests/integration/invariance/invariance_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace lockstep::testing {
namespace {

constexpr uint32_t kNumStems = 4;

std::vector<TokenId> RandomTokens(std::mt19937_64& random, uint32_t count, uint32_t vocab_size) {
  std::uniform_int_distribution<TokenId> token(0, vocab_size - 1);
  std::vector<TokenId> tokens(count);
  for (TokenId& id : tokens) id = token(random);
  return tokens;
}

// Prompt lengths gather around block borders: 16 k - 1, 16 k, 16 k + 1.
uint32_t PromptLength(std::mt19937_64& random, uint32_t max_tokens) {
  const uint32_t blocks = std::uniform_int_distribution<uint32_t>(0, max_tokens / 16)(random);
  const int around = std::uniform_int_distribution<int>(-1, 1)(random);
  return std::clamp<int>(static_cast<int>(blocks * 16) + around, 1, static_cast<int>(max_tokens));
}

router::SamplingParams SamplingOfKind(uint32_t kind, std::mt19937_64& random,
                                      const WorkloadShape& shape) {
  router::SamplingParams sampling;
  sampling.seed = random();
  sampling.max_new_tokens =
      std::uniform_int_distribution<uint32_t>(1, shape.max_new_tokens)(random);
  sampling.stop_token_ids = shape.stop_token_ids;
  sampling.temperature = kind == 0 ? 0.0f : 0.8f;
  switch (kind) {
    case 1:
      sampling.top_k = 20;
      sampling.top_p = 0.9f;
      break;
    case 2:
      sampling.min_p = 0.02f;
      sampling.num_logprobs = 3;
      break;
    case 3:
      sampling.repetition_penalty = 1.3f;
      sampling.presence_penalty = 0.5f;
      sampling.frequency_penalty = 0.25f;
      break;
    case 4:
      sampling.logit_bias = {{1, 3.0f}, {shape.vocab_size - 1, -5.0f}};
      sampling.min_new_tokens = sampling.max_new_tokens / 2;
      break;
    case 5:
      sampling.allowed_token_ids = {2, 3, 5, 7, 11, 13, 17, 19};
      sampling.num_logprobs = 0;
      break;
    case 6:
      sampling.num_prompt_logprobs = 2;
      break;
    default:
      break;
  }
  return sampling;
}

router::WorkerLimits RoomyLimits(const worker::ForwardModelInfo& info) {
  router::WorkerLimits limits;
  limits.kv_groups.clear();
  for (const worker::KvGroupInfo& group : info.kv_groups) {
    limits.kv_groups.push_back(
        router::MakeKvGroup(info.block_size_tokens, group.num_blocks, group.window_tokens));
  }
  limits.max_slots = 64;
  limits.max_step_tokens = info.max_step_tokens;
  limits.max_context_tokens = info.max_context_tokens;
  limits.constraint_engine = kTestConstraintEngine;
  return limits;
}

// Of a further group: room for one sequence at least, and for a dozen at most.
void ShrinkPool(router::KvGroup& group, uint32_t min_blocks, std::mt19937_64& random) {
  if (group.has_window()) min_blocks = group.NumWindowBlocks() + 2;
  const uint32_t num_blocks =
      std::uniform_int_distribution<uint32_t>(min_blocks, 12 * min_blocks)(random);
  group.num_blocks = std::min(group.num_blocks, num_blocks);
}

std::string DescribeDifference(const SequenceRecord& alone, const SequenceRecord& together) {
  if (alone.finished != together.finished || alone.reason != together.reason ||
      alone.error != together.error) {
    return fmt::format("ended otherwise: {} against {}", alone.error.ToString(),
                       together.error.ToString());
  }
  if (alone.tokens != together.tokens) {
    const auto [a, b] = std::mismatch(alone.tokens.begin(), alone.tokens.end(),
                                      together.tokens.begin(), together.tokens.end());
    return fmt::format("tokens differ from index {} on ({} and {} tokens)",
                       a - alone.tokens.begin(), alone.tokens.size(), together.tokens.size());
  }
  if (alone.logprob_bits != together.logprob_bits) return "log-probabilities differ";
  for (const auto& [position, hash] : alone.logit_hashes) {
    const auto other = together.logit_hashes.find(position);
    if (other == together.logit_hashes.end())
      return fmt::format("no logits seen at position {}", position);
    if (other->second != hash) return fmt::format("logits differ at position {}", position);
  }
  return {};
}

}  // namespace

std::vector<std::shared_ptr<const router::Request>> MakeWorkload(const WorkloadShape& shape,
                                                                 uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint32_t longest = std::max(shape.max_prompt_tokens, shape.long_prompt_tokens);
  std::vector<std::vector<TokenId>> stems;
  for (uint32_t i = 0; i < kNumStems; ++i)
    stems.push_back(RandomTokens(random, longest, shape.vocab_size));

  std::vector<std::shared_ptr<const router::Request>> requests;
  for (uint32_t i = 0; i < shape.num_requests; ++i) {
    auto request = std::make_shared<router::Request>();
    request->key = i + 1;
    request->id = fmt::format("request-{}", i + 1);
    const bool is_long = i < shape.num_long_requests;
    const uint32_t length =
        is_long ? shape.long_prompt_tokens - i % 3 : PromptLength(random, shape.max_prompt_tokens);
    const std::vector<TokenId>& stem = stems[random() % kNumStems];
    request->prompt_tokens.assign(stem.begin(), stem.begin() + length);
    if (i % 2 == 0) request->prompt_tokens.back() = random() % shape.vocab_size;
    request->sampling = SamplingOfKind(i % 8, random, shape);
    request->num_samples = i % 5 == 4 ? 3 : 1;
    request->priority = static_cast<int32_t>(random() % 3);
    if (i % 11 == 10) request->prefix_root.salt = "another tenant";
    requests.push_back(std::move(request));
  }
  std::shuffle(requests.begin(), requests.end(), random);
  return requests;
}

std::vector<WorkerLife> AdversarialLives(const worker::ForwardModelInfo& info,
                                         uint32_t num_restarts, uint32_t min_blocks,
                                         uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<WorkerLife> lives;
  for (uint32_t i = 0; i <= num_restarts; ++i) {
    WorkerLife life;
    life.limits = RoomyLimits(info);
    life.limits.kv_groups[0].num_blocks =
        std::uniform_int_distribution<uint32_t>(min_blocks, 2 * min_blocks)(random);
    life.limits.max_slots = std::uniform_int_distribution<uint32_t>(6, 40)(random);
    life.limits.max_step_tokens =
        life.limits.max_slots + std::uniform_int_distribution<uint32_t>(5, 30)(random);
    life.num_steps = std::uniform_int_distribution<uint64_t>(40, 90)(random);
    for (size_t group = 1; group < life.limits.kv_groups.size(); ++group) {
      ShrinkPool(life.limits.kv_groups[group], min_blocks, random);
    }
    lives.push_back(life);
  }
  return lives;
}

Records RunAlone(const WorkerUnderTest& worker,
                 const std::vector<std::shared_ptr<const router::Request>>& requests) {
  Records all;
  router::SchedulerConfig config;
  config.max_steps_in_flight = 1;
  for (const auto& request : requests) {
    ServingHarness harness(worker, config, /*seed=*/request->key);
    harness.Submit(request);
    harness.Run({WorkerLife{.limits = RoomyLimits(worker.info)}});
    all.insert(harness.records().begin(), harness.records().end());
  }
  return all;
}

Records RunTogether(const WorkerUnderTest& worker,
                    const std::vector<std::shared_ptr<const router::Request>>& requests,
                    const std::vector<WorkerLife>& lives, uint64_t seed, ScheduleCounts* counts) {
  router::SchedulerConfig config;
  config.max_steps_in_flight = 3;
  config.max_preemptions_per_sequence = 1000;
  config.max_draft_tokens = worker.max_draft_tokens;
  config.adaptive_drafts = false;
  ServingHarness harness(worker, config, seed);
  for (const auto& request : requests) harness.Submit(request);
  harness.Run(lives);
  *counts = harness.counts();
  return harness.records();
}

std::vector<std::string> Differences(const Records& alone, const Records& together, size_t limit) {
  std::vector<std::string> differences;
  for (const auto& [key, expected] : alone) {
    const auto found = together.find(key);
    if (found == together.end()) {
      differences.push_back(fmt::format("request {}: missing", key));
      continue;
    }
    if (expected.prompt_logprob_bits != found->second.prompt_logprob_bits) {
      differences.push_back(fmt::format("request {}: prompt log-probabilities differ", key));
    }
    for (size_t i = 0; i < expected.samples.size(); ++i) {
      const std::string words = DescribeDifference(expected.samples[i], found->second.samples[i]);
      if (!words.empty())
        differences.push_back(fmt::format("request {} sample {}: {}", key, i, words));
    }
    if (differences.size() >= limit) break;
  }
  return differences;
}

}  // namespace lockstep::testing
