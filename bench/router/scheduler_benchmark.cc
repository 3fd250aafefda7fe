// Router time per step, without encoding: NextStep, Apply and TakeEvents of a batch in steady
// decode.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"
#include "router/core/policy/priority_policy.h"
#include "router/core/scheduler.h"

namespace lockstep::router {
namespace {

constexpr uint32_t kPromptTokens = 512;
constexpr uint32_t kNewTokens = 4096;
constexpr uint32_t kBlockSizeTokens = 16;
constexpr uint32_t kStepsInFlight = 2;

// Plays worker and clients: every sequence that ends is replaced.
class SteadyBatch {
 public:
  explicit SteadyBatch(uint32_t num_sequences)
      : scheduler_(Config(num_sequences), MakePriorityPolicy(absl::Seconds(10))) {
    const uint32_t blocks_each = (kPromptTokens + kNewTokens) / kBlockSizeTokens + 1;
    WorkerLimits limits;
    limits.kv_groups[0].num_blocks = (num_sequences + 1) * blocks_each;
    limits.kv_groups[0].block_size_tokens = kBlockSizeTokens;
    limits.max_slots = num_sequences;
    limits.max_step_tokens = 8192;
    limits.max_context_tokens = kPromptTokens + kNewTokens;
    LOCKSTEP_CHECK(scheduler_.AttachWorker(limits, now_).ok(), "the limits are good");
    for (uint32_t i = 0; i < num_sequences; ++i) Submit();
    Plan();
    while (in_flight_.front().num_prefill_tokens > 0) Step();
  }

  // One step is planned and one is acknowledged.
  void Step() {
    Apply();
    for (const SchedulerEvent& event : scheduler_.TakeEvents()) {
      if (std::holds_alternative<FinishedEvent>(event)) Submit();
    }
    Plan();
  }

 private:
  static SchedulerConfig Config(uint32_t num_sequences) {
    SchedulerConfig config;
    config.max_running_sequences = num_sequences;
    config.max_steps_in_flight = kStepsInFlight;
    return config;
  }

  void Submit() {
    auto request = std::make_shared<Request>();
    request->key = ++next_key_;
    request->arrival = now_;
    for (uint32_t i = 0; i < kPromptTokens; ++i) {
      request->prompt_tokens.push_back(static_cast<TokenId>((next_key_ * 7919 + i * 31) % 50000));
    }
    request->sampling.stop_token_ids = {50000, 50001};
    // Sequences that started together do not end together.
    request->sampling.max_new_tokens = kNewTokens - static_cast<uint32_t>(next_key_ % 1024);
    const absl::Status submitted = scheduler_.Submit(std::move(request), now_);
    LOCKSTEP_CHECK(submitted.ok(), "{}", Message(submitted));
  }

  // Fills the pipeline. Nothing can be added while every sequence may end with a step in flight.
  void Plan() {
    now_ += absl::Milliseconds(5);
    while (std::optional<StepPlan> plan = scheduler_.NextStep(now_)) {
      for (const StartedSlot& started : plan->started) Start(started);
      in_flight_.push_back(*std::move(plan));
    }
    LOCKSTEP_CHECK(!in_flight_.empty(), "the scheduler is stuck");
  }

  void Start(const StartedSlot& started) {
    if (started.slot >= slots_.size()) slots_.resize(started.slot + 1);
    slots_[started.slot] = {
        .num_known = static_cast<uint32_t>(started.known_tokens.size()),
        .num_computed = started.num_computed_tokens,
        .max_total_tokens = static_cast<uint32_t>(started.request->max_total_tokens())};
  }

  void Apply() {
    const StepPlan plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    StepOutcome outcome;
    outcome.step_id = plan.step_id;
    outcome.rows.resize(plan.rows.size());
    for (size_t i = 0; i < plan.rows.size(); ++i) Run(plan.rows[i], outcome.rows[i]);
    const absl::Status applied = scheduler_.Apply(std::move(outcome), now_);
    LOCKSTEP_CHECK(applied.ok(), "{}", Message(applied));
  }

  void Run(const RunRow& row, RowOutcome& outcome) {
    Slot& slot = slots_[row.slot];
    outcome.slot = row.slot;
    slot.num_computed += row.num_tokens;
    if (slot.num_computed < slot.num_known) return;
    outcome.tokens = {static_cast<TokenId>(slot.num_known * 13 % 50000)};
    if (++slot.num_known == slot.max_total_tokens) outcome.stopped = StopCause::kLength;
  }

  struct Slot {
    uint32_t num_known = 0;
    uint32_t num_computed = 0;
    uint32_t max_total_tokens = 0;
  };

  Instant now_ = Instant();
  Scheduler scheduler_;
  RequestKey next_key_ = 0;
  std::deque<StepPlan> in_flight_;
  std::vector<Slot> slots_;
};

void BM_SteadyDecode(benchmark::State& state) {
  SteadyBatch batch(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) batch.Step();
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_SteadyDecode)->Arg(1)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep::router

BENCHMARK_MAIN();
