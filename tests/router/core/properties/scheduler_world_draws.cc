// What is drawn for a run: configuration, workers, prompts and requests.
#include "tests/router/core/properties/scheduler_world.h"

namespace lockstep::router::testing {

SchedulerConfig SchedulerWorld::MakeConfig() {
  SchedulerConfig config;
  config.max_steps_in_flight = random_.OneIn(8) ? 1 : random_.Between(2, 3);
  config.max_running_sequences = random_.Between(1, 8);
  config.max_decode_iterations = random_.Between(1, 3);
  config.max_waiting_requests = random_.Between(1, 12);
  if (random_.OneIn(3)) config.max_waiting_tokens = random_.Between(20, 200);
  if (random_.OneIn(3)) config.max_prefill_tokens_per_step = random_.Between(1, 8);
  if (random_.OneIn(4)) config.max_started_ids_per_step = random_.Between(1, 60);
  if (random_.OneIn(3)) config.target_step_time = absl::Milliseconds(random_.Between(1, 20));
  if (random_.OneIn(3)) config.max_time_per_token = absl::Milliseconds(random_.Between(1, 20));
  if (random_.OneIn(3)) config.max_time_to_first_token = absl::Milliseconds(random_.Between(1, 50));
  if (random_.OneIn(4)) config.max_preemptions_per_sequence = random_.Between(0, 3);
  if (kind_.has_drafts) {
    config.max_draft_tokens = random_.Between(0, 5);
    config.adaptive_drafts = random_.Between(0, 1) == 1;
  }
  return config;
}

WorkerLimits SchedulerWorld::MakeLimits() {
  WorkerLimits limits;
  limits.kv_groups[0].block_size_tokens = random_.Between(1, 4);
  limits.kv_groups[0].num_blocks =
      random_.OneIn(4) ? random_.Between(25, 96) : random_.Between(4, 24);
  limits.max_slots = random_.Between(1, 8);
  limits.max_step_tokens = random_.Between(1, 24);
  limits.max_context_tokens = random_.Between(32, 96);
  limits.max_decode_iterations = random_.Between(1, 3);
  if (random_.OneIn(8)) limits.max_steps_in_flight = random_.Between(1, 2);
  if (kind_.has_drafts) limits.max_draft_tokens = random_.OneIn(8) ? 0 : random_.Between(1, 6);
  if (kind_.has_window) AddWindow(limits);
  return limits;
}

// Often too small for all that run.
void SchedulerWorld::AddWindow(WorkerLimits& limits) {
  KvGroup& all = limits.kv_groups[0];
  const bool real = random_.OneIn(3);
  if (real) {
    all.block_size_tokens = 16;
    limits.max_context_tokens = random_.Between(64, 160);
    limits.max_step_tokens = random_.Between(1, 48);
  }
  KvGroup window = all;
  window.retention = Retention::kWindow;
  window.window_tokens = real ? 32 : random_.Between(1, 4 * all.block_size_tokens);
  window.num_blocks =
      window.NumWindowBlocks() + 2 + (random_.OneIn(3) ? 0 : random_.Between(0, 30));
  limits.kv_groups.push_back(window);
}

std::vector<TokenId> SchedulerWorld::MakePrompt() {
  if (!ended_texts_.empty() && random_.OneIn(2)) {
    std::vector<TokenId> prompt = ended_texts_[random_.Between(0, ended_texts_.size() - 1)];
    prompt.push_back(random_.Between(0, kVocabularySize - 1));
    return prompt;
  }
  const std::vector<TokenId>& text = texts_[random_.Between(0, texts_.size() - 1)];
  const uint32_t num_shared = random_.Between(0, random_.OneIn(4) ? 40 : 16);
  std::vector<TokenId> prompt(text.begin(), text.begin() + num_shared);
  const uint32_t num_own = random_.Between(num_shared == 0 ? 1 : 0, 4);
  for (uint32_t i = 0; i < num_own; ++i) {
    prompt.push_back(random_.Between(0, kVocabularySize - 1));
  }
  return prompt;
}

std::shared_ptr<const Request> SchedulerWorld::MakeRequest() {
  auto request = std::make_shared<Request>();
  request->key = next_key_++;
  request->tenant = request->key % 5 < 3 ? "large" : request->key % 5 == 3 ? "small" : "tiny";
  request->prefix_root.salt = random_.OneIn(4) ? "salt" : "";
  request->priority = static_cast<int32_t>(random_.Between(0, 4)) - 2;
  request->arrival = now_;
  if (random_.OneIn(8)) {
    const bool near = random_.OneIn(2);
    request->deadline =
        now_ + absl::Milliseconds(near ? random_.Between(1, 100) : random_.Between(100, 8000));
  }
  request->prompt_tokens = MakePrompt();
  request->num_samples = random_.OneIn(4) ? random_.Between(2, 3) : 1;
  request->bypass_prefix_cache = random_.OneIn(10);
  SamplingParams& sampling = request->sampling;
  sampling.temperature = random_.OneIn(2) ? 1.0f : 0.0f;
  sampling.seed = random_.Between(1, 2);
  sampling.max_new_tokens = random_.Between(1, random_.OneIn(2) ? 30 : 10);
  if (!random_.OneIn(4)) sampling.stop_token_ids = {kEndToken};
  if (random_.OneIn(5)) sampling.min_new_tokens = random_.Between(1, sampling.max_new_tokens);
  if (random_.OneIn(6)) sampling.num_logprobs = 1;
  if (random_.OneIn(6)) sampling.num_prompt_logprobs = 0;
  if (kind_.has_drafts) {
    if (random_.OneIn(4)) request->max_rows_in_flight = random_.Between(1, 2);
    request->rows_may_wait = random_.OneIn(6);
    request->may_draft = !random_.OneIn(6);
  }
  return request;
}

}  // namespace lockstep::router::testing
