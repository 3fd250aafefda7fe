#include "bench/serving/engine.h"

#include <absl/time/clock.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "common/check.h"
#include "common/status.h"
#include "router/core/policies.h"
#include "router/engine/step_codec.h"

namespace lockstep::bench {
namespace {

constexpr uint64_t kEpoch = 1;

router::SchedulerConfig MakeConfig(const Engine::Options& options) {
  router::SchedulerConfig config;
  config.max_steps_in_flight = options.max_steps_in_flight;
  config.max_decode_iterations = options.max_decode_iterations;
  config.max_running_sequences = options.max_running_sequences;
  config.max_waiting_tokens = uint64_t{1} << 32;
  return config;
}

void Expect(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }

}  // namespace

Engine::Engine(worker::StepRunner& runner, const worker::ForwardModelInfo& info,
               const Options& options)
    : runner_(runner), scheduler_(MakeConfig(options), router::MakeFcfsPolicy()) {
  const worker::StepBounds& bounds = runner.bounds();
  runner_.BeginLease(kEpoch);
  Expect(scheduler_.AttachWorker({.num_blocks = info.num_blocks,
                                  .block_size_tokens = info.block_size_tokens,
                                  .max_slots = bounds.max_slots,
                                  .max_step_tokens = bounds.max_step_tokens,
                                  .max_context_tokens = bounds.max_context_tokens,
                                  .max_decode_iterations = bounds.max_decode_iterations,
                                  .max_steps_in_flight = options.max_steps_in_flight},
                                 absl::Now()));
}

Engine::~Engine() { runner_.EndLease(); }

void Engine::Submit(const Work& work) {
  auto request = std::make_shared<router::Request>();
  request->key = next_key_++;
  request->arrival = absl::Now();
  request->prompt_tokens = work.prompt;
  request->bypass_prefix_cache = true;
  request->sampling.temperature = 0.0f;
  request->sampling.max_new_tokens = work.num_output_tokens;
  Expect(scheduler_.Submit(std::move(request), absl::Now()));
}

double Engine::Run(std::span<const Work> work) {
  using Clock = std::chrono::steady_clock;
  times_ = {};
  outputs_.assign(work.size(), {});
  first_key_ = next_key_;
  const Clock::time_point start = Clock::now();
  for (const Work& item : work) Submit(item);
  size_t num_ended = 0;
  while (num_ended < work.size()) {
    SendSteps();
    TakeResults();
    num_ended += TakeEvents();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  while (!in_flight_.empty()) TakeResults();
  for (size_t i = 0; i < work.size(); ++i) {
    LOCKSTEP_CHECK(outputs_[i].size() == work[i].num_output_tokens,
                   "request {} got {} tokens, expected {}", i, outputs_[i].size(),
                   work[i].num_output_tokens);
  }
  return seconds;
}

void Engine::SendSteps() {
  while (std::optional<router::StepPlan> plan = scheduler_.NextStep(absl::Now())) {
    runner_.Submit(router::EncodeStep(*plan, kEpoch));
    in_flight_.push_back(*std::move(plan));
  }
}

void Engine::TakeResults() {
  worker::v1::StepResult result;
  worker::StepStats stats;
  while (runner_.TakeResult(&result, &stats)) {
    LOCKSTEP_CHECK(!result.has_refusal(), "a step was refused: {}", result.refusal().message());
    const router::StepPlan plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (times_.num_steps++ > 0) {
      times_.idle_us.push_back(static_cast<double>(result.timings().idle_ns()) * 1e-3);
    }
    absl::StatusOr<router::StepOutcome> outcome = router::DecodeResult(result, plan);
    Expect(outcome.status());
    Expect(scheduler_.Apply(*std::move(outcome), absl::Now()));
  }
}

size_t Engine::TakeEvents() {
  size_t num_ended = 0;
  for (router::SchedulerEvent& event : scheduler_.TakeEvents()) {
    if (auto* tokens = std::get_if<router::TokensEvent>(&event)) {
      std::vector<TokenId>& output = outputs_[tokens->request - first_key_];
      output.insert(output.end(), tokens->tokens.begin(), tokens->tokens.end());
    } else if (auto* finished = std::get_if<router::FinishedEvent>(&event)) {
      Expect(finished->error);
      ++num_ended;
    }
  }
  return num_ended;
}

}  // namespace lockstep::bench
