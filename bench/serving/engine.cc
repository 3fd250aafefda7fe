#include "bench/serving/engine.h"

#include <absl/container/flat_hash_map.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "common/check.h"
#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/status.h"
#include "router/core/policy/priority_policy.h"
#include "router/workers/step_codec.h"

namespace lockstep::bench {
namespace {

constexpr uint64_t kEpoch = 1;

router::SchedulerConfig MakeConfig(const Engine::Options& options) {
  router::SchedulerConfig config;
  config.max_steps_in_flight = options.max_steps_in_flight;
  config.max_decode_iterations = options.max_decode_iterations;
  config.max_running_sequences = options.max_running_sequences;
  config.max_waiting_tokens = uint64_t{1} << 32;
  config.target_step_time = options.target_step_time;
  config.max_draft_tokens = options.max_draft_tokens;
  config.adaptive_drafts = false;  // a case says how many
  return config;
}

void Expect(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }

router::KvGroups GroupsOf(const worker::ForwardModelInfo& info) {
  router::KvGroups groups;
  for (const worker::KvGroupInfo& group : info.kv_groups) {
    groups.push_back(
        router::MakeKvGroup(info.block_size_tokens, group.num_blocks, group.window_tokens));
  }
  return groups;
}

}  // namespace

Engine::Engine(worker::StepRunner& runner, const worker::ForwardModelInfo& info,
               const Options& options)
    : runner_(runner),
      on_start_(options.on_start),
      scheduler_(MakeConfig(options), router::MakePriorityPolicy(absl::Seconds(10))) {
  const worker::StepBounds& bounds = runner.bounds();
  runner_.BeginLease(kEpoch);
  Expect(scheduler_.AttachWorker({.kv_groups = GroupsOf(info),
                                  .max_slots = bounds.max_slots,
                                  .max_step_tokens = bounds.max_step_tokens,
                                  .max_context_tokens = bounds.max_context_tokens,
                                  .max_decode_iterations = bounds.max_decode_iterations,
                                  .max_draft_tokens = bounds.max_draft_tokens,
                                  .max_steps_in_flight = options.max_steps_in_flight},
                                 MonotonicNow()));
}

Engine::~Engine() { runner_.EndLease(); }

void Engine::Submit(const Work& work) {
  auto request = std::make_shared<router::Request>();
  request->key = next_key_++;
  request->arrival = MonotonicNow();
  request->prompt_tokens = work.prompt;
  request->bypass_prefix_cache = true;
  request->sampling.temperature = 0.0f;
  request->sampling.max_new_tokens = work.num_output_tokens;
  Expect(scheduler_.Submit(std::move(request), MonotonicNow()));
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

Engine::Disturbance Engine::Disturb(std::span<const Work> streams,
                                    const std::function<Work()>& next_prompt,
                                    absl::Duration duration) {
  Disturbance result;
  const RequestKey first_stream = next_key_;
  const RequestKey first_prompt = first_stream + streams.size();
  for (const Work& stream : streams) Submit(stream);
  std::vector<Instant> last_token(streams.size(), Instant::InfinitePast());
  size_t num_decoding = 0;
  size_t num_prompts = 0;
  Instant begin = Instant::InfiniteFuture();
  uint64_t prefilled_before = 0;
  // The gaps of a stream that ends would be missing, so it has to outlast the measurement.
  const auto take_event = [&](const router::SchedulerEvent& event) {
    if (const auto* finished = std::get_if<router::FinishedEvent>(&event)) {
      LOCKSTEP_CHECK(finished->request >= first_prompt, "a stream ended within {}",
                     absl::FormatDuration(duration));
      --num_prompts;
    }
    const auto* tokens = std::get_if<router::TokensEvent>(&event);
    if (tokens == nullptr || tokens->request >= first_prompt) return;
    const Instant now = MonotonicNow();
    Instant& last = last_token[tokens->request - first_stream];
    if (last == Instant::InfinitePast()) ++num_decoding;
    if (last >= begin) result.gap_ms.push_back(absl::ToDoubleMilliseconds(now - last));
    last = now;
  };
  while (MonotonicNow() - begin < duration) {
    if (num_decoding == streams.size()) {
      if (begin == Instant::InfiniteFuture()) {
        begin = MonotonicNow();
        prefilled_before = num_prefill_tokens_;
      }
      for (; num_prompts < 2; ++num_prompts) Submit(next_prompt());
    }
    SendSteps();
    TakeResults();
    for (const router::SchedulerEvent& event : scheduler_.TakeEvents()) take_event(event);
  }
  result.prompt_tokens_per_s = static_cast<double>(num_prefill_tokens_ - prefilled_before) /
                               absl::ToDoubleSeconds(MonotonicNow() - begin);
  CancelFrom(first_stream);
  return result;
}

Engine::Saturation Engine::Saturate(uint32_t num_streams, const std::function<Work()>& next,
                                    absl::Duration warm_up, absl::Duration duration) {
  struct Stream {
    Instant submitted = MonotonicNow();
    Instant last_token = Instant::InfinitePast();
  };
  Saturation result;
  absl::flat_hash_map<RequestKey, Stream> streams;
  const RequestKey first = next_key_;
  const Instant begin = MonotonicNow() + warm_up;
  uint64_t num_tokens = 0;
  const auto take_tokens = [&](const router::TokensEvent& event, Instant now) {
    Stream& stream = streams.at(event.request);
    if (now >= begin) {
      num_tokens += event.tokens.size();
      if (stream.last_token == Instant::InfinitePast()) {
        result.first_ms.push_back(absl::ToDoubleMilliseconds(now - stream.submitted));
      } else {
        result.gap_ms.push_back(absl::ToDoubleMilliseconds(now - stream.last_token));
      }
    }
    stream.last_token = now;
  };
  uint64_t prefilled_before = 0;
  Instant now = MonotonicNow();
  for (; now < begin + duration; now = MonotonicNow()) {
    if (now >= begin && step_costs_ == nullptr) {
      step_costs_ = &result.steps;
      prefilled_before = num_prefill_tokens_;
    }
    while (streams.size() < num_streams) {
      streams.emplace(next_key_, Stream{});
      Submit(next());
    }
    SendSteps();
    TakeResults();
    const Instant seen = MonotonicNow();
    for (const router::SchedulerEvent& event : scheduler_.TakeEvents()) {
      if (const auto* tokens = std::get_if<router::TokensEvent>(&event)) {
        take_tokens(*tokens, seen);
      } else if (const auto* finished = std::get_if<router::FinishedEvent>(&event)) {
        Expect(finished->error);
        streams.erase(finished->request);
      }
    }
  }
  step_costs_ = nullptr;
  const double seconds = absl::ToDoubleSeconds(now - begin);
  result.output_tokens_per_s = static_cast<double>(num_tokens) / seconds;
  result.prompt_tokens_per_s =
      static_cast<double>(num_prefill_tokens_ - prefilled_before) / seconds;
  CancelFrom(first);
  return result;
}

void Engine::CancelFrom(RequestKey first) {
  for (RequestKey key = first; key < next_key_; ++key) scheduler_.Cancel(key, MonotonicNow());
  while (!in_flight_.empty()) {
    TakeResults();
    SendSteps();
  }
  scheduler_.TakeEvents();
}

void Engine::SendSteps() {
  while (std::optional<router::StepPlan> plan = scheduler_.NextStep(MonotonicNow())) {
    for (const router::StartedSlot& started : plan->started) {
      if (on_start_) on_start_(started.request->key - first_key_, started.slot);
    }
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
    num_prefill_tokens_ += plan.num_prefill_tokens;
    const double idle_ms = static_cast<double>(result.timings().idle_ns()) * 1e-6;
    const double compute_ms = static_cast<double>(result.timings().compute_ns()) * 1e-6;
    if (times_.num_steps++ > 0) {
      times_.idle_us.push_back(idle_ms * 1e3);
      times_.step_ms.push_back(idle_ms + compute_ms);
    }
    if (step_costs_ != nullptr) {
      step_costs_->push_back({.num_prefill_tokens = plan.num_prefill_tokens,
                              .num_decode_tokens = plan.num_decode_tokens,
                              .compute_ms = compute_ms,
                              .idle_ms = idle_ms});
    }
    absl::StatusOr<router::StepOutcome> outcome = router::DecodeResult(result, plan);
    Expect(outcome.status());
    Expect(scheduler_.Apply(*std::move(outcome), MonotonicNow()));
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
