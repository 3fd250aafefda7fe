#include "tests/rigs/closed_loop/closed_loop.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"
#include "router/core/policy/priority_policy.h"
#include "router/core/scheduler.h"

namespace lockstep::bench {
namespace {

constexpr uint32_t kNumSlots = 512;
constexpr uint32_t kMaxStepTokens = 8192;
constexpr uint32_t kMaxContextTokens = 1 << 20;
constexpr uint32_t kNumBlocks = 1 << 20;
// From a step's end until the router has its result.
constexpr absl::Duration kResultDelay = absl::Microseconds(15);
// All requests have the same priority, so ageing changes nothing.
constexpr absl::Duration kAgeing = absl::Seconds(10);
// A prefix is its number, repeated. The rest of request K's prompt is kOwnTokens + K, repeated.
constexpr TokenId kOwnTokens = 1 << 16;

void Expect(const absl::Status& status) { LOCKSTEP_CHECK(status.ok(), "{}", Message(status)); }

class Simulation {
 public:
  explicit Simulation(const ClosedLoop& loop)
      : loop_(loop),
        random_(loop.seed),
        scheduler_(ConfigOf(loop), router::MakePriorityPolicy(kAgeing)),
        worker_(kNumSlots, loop.costs) {
    Expect(scheduler_.AttachWorker({.num_blocks = kNumBlocks,
                                    .max_slots = kNumSlots,
                                    .max_step_tokens = kMaxStepTokens,
                                    .max_context_tokens = kMaxContextTokens},
                                   now_));
  }

  ClosedLoopFigures Run() {
    begin_ = now_ + loop_.warm_up;
    for (uint32_t i = 0; i < loop_.num_endless; ++i) {
      Submit(loop_.endless_context, kMaxContextTokens / 2, /*is_endless=*/true);
    }
    for (uint32_t i = 0; i < loop_.num_streams; ++i) SubmitNext();
    while (now_ < begin_ + loop_.duration) {
      SendSteps();
      LOCKSTEP_CHECK(!in_flight_.empty(), "nothing runs");
      TakeResult();
    }
    const double seconds = absl::ToDoubleSeconds(now_ - begin_);
    figures_.output_tokens_per_s = static_cast<double>(num_output_tokens_) / seconds;
    figures_.prompt_tokens_per_s = static_cast<double>(num_prompt_tokens_) / seconds;
    return std::move(figures_);
  }

 private:
  struct Stream {
    Instant submitted;
    std::optional<Instant> last_token = std::nullopt;
    uint32_t num_prompt_tokens = 0;
    bool is_endless = false;
  };
  struct InFlight {
    router::StepPlan plan;
    Instant sent;
  };

  static router::SchedulerConfig ConfigOf(const ClosedLoop& loop) {
    router::SchedulerConfig config;
    config.max_waiting_tokens = uint64_t{1} << 32;
    config.target_step_time = loop.target_step_time;
    return config;
  }

  void SubmitNext() {
    const uint32_t num_prompt_tokens = random_.In(loop_.prompt_tokens);
    Submit(num_prompt_tokens, random_.In(loop_.output_tokens), /*is_endless=*/false);
  }

  void Submit(uint32_t num_prompt_tokens, uint32_t num_output_tokens, bool is_endless) {
    auto request = std::make_shared<router::Request>();
    request->key = next_key_++;
    request->arrival = now_;
    if (loop_.num_prefixes > 0 && !is_endless) {
      request->prompt_tokens.assign(loop_.prefix_tokens, random_.In({0, loop_.num_prefixes - 1}));
    }
    request->prompt_tokens.resize(request->prompt_tokens.size() + num_prompt_tokens,
                                  kOwnTokens + static_cast<TokenId>(request->key));
    request->bypass_prefix_cache = loop_.num_prefixes == 0;
    request->sampling.max_new_tokens = num_output_tokens;
    streams_.emplace(request->key, Stream{.submitted = now_,
                                          .num_prompt_tokens = num_prompt_tokens,
                                          .is_endless = is_endless});
    Expect(scheduler_.Submit(std::move(request), now_));
  }

  void SendSteps() {
    while (std::optional<router::StepPlan> plan = scheduler_.NextStep(now_)) {
      in_flight_.push_back({.plan = *std::move(plan), .sent = now_});
    }
  }

  void TakeResult() {
    const InFlight step = std::move(in_flight_.front());
    in_flight_.pop_front();
    TimedWorker::Done done = worker_.Run(step.plan, step.sent);
    now_ = std::max(now_, done.at) + kResultDelay;
    Expect(scheduler_.Apply(std::move(done.outcome), now_));
    for (const router::SchedulerEvent& event : scheduler_.TakeEvents()) {
      if (const auto* tokens = std::get_if<router::TokensEvent>(&event)) {
        TakeTokens(*tokens);
      } else if (const auto* finished = std::get_if<router::FinishedEvent>(&event)) {
        Expect(finished->error);
        LOCKSTEP_CHECK(!streams_.at(finished->request).is_endless, "an endless stream ended");
        streams_.erase(finished->request);
        SubmitNext();
      }
    }
  }

  void TakeTokens(const router::TokensEvent& event) {
    Stream& stream = streams_.at(event.request);
    if (now_ >= begin_) {
      num_output_tokens_ += event.tokens.size();
      if (!stream.last_token.has_value()) {
        num_prompt_tokens_ += stream.num_prompt_tokens;
        figures_.first_ms.push_back(absl::ToDoubleMilliseconds(now_ - stream.submitted));
      } else if (stream.is_endless == (loop_.num_endless > 0)) {
        figures_.gap_ms.push_back(absl::ToDoubleMilliseconds(now_ - *stream.last_token));
      }
    }
    stream.last_token = now_;
  }

  const ClosedLoop loop_;
  RandomDraws random_;
  router::Scheduler scheduler_;
  TimedWorker worker_;
  Instant now_;
  Instant begin_;
  RequestKey next_key_ = 1;
  absl::flat_hash_map<RequestKey, Stream> streams_;
  std::deque<InFlight> in_flight_;
  uint64_t num_output_tokens_ = 0;
  uint64_t num_prompt_tokens_ = 0;
  ClosedLoopFigures figures_;
};

}  // namespace

ClosedLoopFigures SimulateClosedLoop(const ClosedLoop& loop) { return Simulation(loop).Run(); }

}  // namespace lockstep::bench
