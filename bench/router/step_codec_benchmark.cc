// What the router does for one step of 256 decoding sequences: the two translations alone, and all
// of it together with the scheduler (plan, encode, serialise; parse, decode, apply).
#include <absl/time/time.h>
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/instant.h"
#include "router/core/policy/priority_policy.h"
#include "router/core/scheduler.h"
#include "router/workers/step_codec.h"

namespace lockstep::router {
namespace {

constexpr uint32_t kNumSequences = 256;
constexpr uint32_t kPromptTokens = 64;
constexpr uint32_t kBlockSizeTokens = 16;
constexpr uint32_t kWindowTokens = 1024;  // of further KV groups

// A row in 16 grows, in each of the KV groups.
StepPlan DecodePlan(bool repeat_rows, uint32_t num_groups = 1) {
  StepPlan plan;
  plan.step_id = 1000;
  plan.repeat_rows = repeat_rows;
  for (uint32_t slot = 0; slot < kNumSequences; ++slot) {
    RunRow row{.slot = slot, .num_tokens = 1, .new_blocks = {}};
    for (uint32_t group = 0; group < num_groups && slot % kBlockSizeTokens == 0; ++group) {
      row.new_blocks.push_back({.group = group, .ids = {slot}});
    }
    plan.rows.push_back(std::move(row));
  }
  return plan;
}

// One token for every row that samples in this step.
worker::v1::StepResult ResultOf(const StepPlan& plan, TokenId token) {
  worker::v1::StepResult result;
  result.set_epoch(1);
  result.set_incarnation(1);
  result.set_step_id(plan.step_id);
  for (const RunRow& row : plan.rows) {
    result.add_sampled_slots(row.slot);
    result.add_token_ids(token);
  }
  return result;
}

void BM_EncodeStep(benchmark::State& state) {
  const StepPlan plan = DecodePlan(state.range(0) != 0, static_cast<uint32_t>(state.range(1)));
  std::string bytes;
  for (auto _ : state) {
    EncodeStep(plan, 1).SerializeToString(&bytes);
    benchmark::DoNotOptimize(bytes.data());
  }
  state.counters["bytes"] = static_cast<double>(bytes.size());
}
BENCHMARK(BM_EncodeStep)
    ->ArgNames({"repeat_rows", "groups"})
    ->Args({0, 1})
    ->Args({1, 1})
    ->Args({0, 2})
    ->Args({1, 2})
    ->Unit(benchmark::kMicrosecond);

void BM_DecodeResult(benchmark::State& state) {
  const StepPlan plan = DecodePlan(false);
  const std::string bytes = ResultOf(plan, 7).SerializeAsString();
  for (auto _ : state) {
    worker::v1::StepResult result;
    LOCKSTEP_CHECK(result.ParseFromString(bytes), "the result was serialised above");
    const absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
    LOCKSTEP_CHECK(outcome.ok(), "the result fits the plan");
    benchmark::DoNotOptimize(outcome->rows.data());
  }
  state.counters["bytes"] = static_cast<double>(bytes.size());
}
BENCHMARK(BM_DecodeResult)->Unit(benchmark::kMicrosecond);

// A scheduler with 256 sequences that decode for as long as the benchmark runs, and a worker that
// answers every step with one token a row.
class DecodingRouter {
 public:
  explicit DecodingRouter(uint32_t num_groups)
      : scheduler_(Config(), MakePriorityPolicy(absl::Seconds(10))) {
    WorkerLimits limits = Worker();
    while (limits.kv_groups.size() < num_groups) {
      limits.kv_groups.push_back({.block_size_tokens = kBlockSizeTokens,
                                  .num_blocks = 1u << 18,
                                  .retention = Retention::kWindow,
                                  .window_tokens = kWindowTokens});
    }
    LOCKSTEP_CHECK(scheduler_.AttachWorker(limits, now_).ok(), "the limits make sense");
    for (RequestKey key = 1; key <= kNumSequences; ++key) {
      auto request = std::make_shared<Request>();
      request->key = key;
      request->prompt_tokens.assign(kPromptTokens, static_cast<TokenId>(key));
      request->sampling.max_new_tokens = Worker().max_context_tokens - kPromptTokens;
      LOCKSTEP_CHECK(scheduler_.Submit(std::move(request), now_).ok(), "the queue has room");
    }
    // Until every prompt is computed and every row decodes.
    for (int step = 0; step < 200; ++step) RunStep();
    LOCKSTEP_CHECK(num_running() == kNumSequences, "all sequences run");
  }

  // Everything that the router does for one step in the steady state; the worker's part between the
  // two halves is not counted.
  std::chrono::duration<double> RunStep() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    while (std::optional<StepPlan> plan = scheduler_.NextStep(now_)) {
      EncodeStep(*plan, 1).SerializeToString(&request_bytes_);
      in_flight_.push_back(*std::move(plan));
    }
    const std::chrono::duration<double> sending = Clock::now() - start;

    Answer(in_flight_.front());

    const Clock::time_point answered = Clock::now();
    worker::v1::StepResult result;
    LOCKSTEP_CHECK(result.ParseFromString(result_bytes_), "the worker serialised it");
    absl::StatusOr<StepOutcome> outcome = DecodeResult(result, in_flight_.front());
    LOCKSTEP_CHECK(outcome.ok(), "the result fits the plan");
    LOCKSTEP_CHECK(scheduler_.Apply(*std::move(outcome), now_).ok(), "the outcome fits the plan");
    benchmark::DoNotOptimize(scheduler_.TakeEvents());
    in_flight_.pop_front();
    return sending + (Clock::now() - answered);
  }

  uint32_t num_running() const { return scheduler_.Stats().running_sequences; }

 private:
  static SchedulerConfig Config() {
    SchedulerConfig config;
    config.max_running_sequences = kNumSequences;
    return config;
  }
  static WorkerLimits Worker() {
    return {.kv_groups = {{.block_size_tokens = kBlockSizeTokens, .num_blocks = 1u << 20}},
            .max_slots = kNumSequences,
            .max_step_tokens = 8192,
            .max_context_tokens = 1u << 16};
  }

  void Answer(const StepPlan& plan) {
    worker::v1::StepResult result;
    result.set_epoch(1);
    result.set_step_id(plan.step_id);
    for (const StartedSlot& started : plan.started) {
      Slot(started.slot) = {.known = static_cast<uint32_t>(started.known_tokens.size()),
                            .computed = started.num_computed_tokens};
    }
    for (const RunRow& row : plan.rows) {
      SlotState& slot = Slot(row.slot);
      slot.computed += row.num_tokens;
      if (slot.computed < slot.known) continue;
      ++slot.known;
      result.add_sampled_slots(row.slot);
      result.add_token_ids(7);
    }
    result.SerializeToString(&result_bytes_);
  }

  struct SlotState {
    uint32_t known = 0, computed = 0;
  };
  SlotState& Slot(SlotId slot) {
    if (slot >= slots_.size()) slots_.resize(slot + 1);
    return slots_[slot];
  }

  const Instant now_ = Instant();
  Scheduler scheduler_;
  std::deque<StepPlan> in_flight_;
  std::vector<SlotState> slots_;
  std::string request_bytes_;
  std::string result_bytes_;
};

void BM_RouterStep(benchmark::State& state) {
  const auto num_groups = static_cast<uint32_t>(state.range(0));
  auto router = std::make_unique<DecodingRouter>(num_groups);
  for (auto _ : state) {
    state.SetIterationTime(router->RunStep().count());
    // The context of all ends at once; what comes then is no steady state.
    if (router->num_running() < kNumSequences) {
      router = std::make_unique<DecodingRouter>(num_groups);
    }
  }
}
BENCHMARK(BM_RouterStep)
    ->ArgName("groups")
    ->Arg(1)
    ->Arg(2)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep::router

BENCHMARK_MAIN();
