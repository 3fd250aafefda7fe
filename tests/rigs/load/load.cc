#include "tests/rigs/load/load.h"

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
  explicit Simulation(const Load& load)
      : load_(load),
        random_(load.seed),
        scheduler_(ConfigOf(load), router::MakePriorityPolicy(kAgeing)),
        worker_(kNumSlots, load.costs) {
    Expect(scheduler_.AttachWorker({.kv_groups = GroupsOf(load),
                                    .max_slots = kNumSlots,
                                    .max_step_tokens = kMaxStepTokens,
                                    .max_context_tokens = kMaxContextTokens},
                                   now_));
  }

  LoadFigures Run() {
    begin_ = now_ + load_.warm_up;
    for (uint32_t i = 0; i < load_.num_endless; ++i) {
      Submit(Origin::kEndless, load_.endless_context, kMaxContextTokens / 2);
    }
    for (uint32_t i = 0; i < load_.num_streams; ++i) SubmitOne(Origin::kStream);
    DrawNextArrival();
    while (now_ < begin_ + load_.duration) {
      SendSteps();
      const Instant result_at =
          in_flight_.empty() ? Instant::InfiniteFuture() : in_flight_.front().at + kResultDelay;
      const bool arrives = next_arrival_ <= result_at;
      now_ = std::max(now_, arrives ? next_arrival_ : result_at);
      LOCKSTEP_CHECK(now_ < Instant::InfiniteFuture(), "nothing runs and nothing arrives");
      if (arrives) {
        SubmitOne(Origin::kArrival);
        DrawNextArrival();
      } else {
        TakeResult();
      }
    }
    const double seconds = absl::ToDoubleSeconds(now_ - begin_);
    figures_.output_tokens_per_s = static_cast<double>(num_output_tokens_) / seconds;
    figures_.prompt_tokens_per_s = static_cast<double>(num_prompt_tokens_) / seconds;
    figures_.requests_per_s = static_cast<double>(figures_.token_ms.size()) / seconds;
    figures_.refused_per_s = static_cast<double>(num_refused_) / seconds;
    figures_.good_requests_per_s = static_cast<double>(num_good_) / seconds;
    return std::move(figures_);
  }

 private:
  enum class Origin { kStream, kArrival, kEndless };
  struct Running {
    Origin origin = Origin::kStream;
    Instant submitted = {};
    uint32_t num_prompt_tokens = 0;
    uint32_t num_output_tokens = 0;  // so far
    Instant first_token = {};
    Instant last_token = {};
  };

  static router::SchedulerConfig ConfigOf(const Load& load) {
    router::SchedulerConfig config;
    config.max_waiting_tokens = uint64_t{1} << 32;
    config.target_step_time = load.target_step_time;
    config.max_time_per_token = load.max_time_per_token;
    config.max_time_to_first_token = load.max_time_to_first_token;
    return config;
  }

  static router::KvGroups GroupsOf(const Load& load) {
    router::KvGroups groups = {{.num_blocks = kNumBlocks}};
    if (load.window_tokens > 0) {
      groups.push_back({.num_blocks = kNumBlocks,
                        .retention = router::Retention::kWindow,
                        .window_tokens = load.window_tokens});
    }
    return groups;
  }

  void SubmitOne(Origin origin) {
    const uint32_t num_prompt_tokens = random_.In(load_.prompt_tokens);
    Submit(origin, num_prompt_tokens, random_.In(load_.output_tokens));
  }

  void Submit(Origin origin, uint32_t num_prompt_tokens, uint32_t num_output_tokens) {
    auto request = std::make_shared<router::Request>();
    request->key = next_key_++;
    request->arrival = now_;
    if (load_.num_prefixes > 0 && origin != Origin::kEndless) {
      request->prompt_tokens.assign(load_.prefix_tokens, random_.In({0, load_.num_prefixes - 1}));
    }
    request->prompt_tokens.resize(request->prompt_tokens.size() + num_prompt_tokens,
                                  kOwnTokens + static_cast<TokenId>(request->key));
    request->bypass_prefix_cache = load_.num_prefixes == 0;
    request->sampling.max_new_tokens = num_output_tokens;
    const RequestKey key = request->key;
    const absl::Status status = scheduler_.Submit(std::move(request), now_);
    if (origin == Origin::kArrival && absl::IsResourceExhausted(status)) {
      num_refused_ += now_ >= begin_;
      return;
    }
    Expect(status);
    running_.emplace(
        key, Running{.origin = origin, .submitted = now_, .num_prompt_tokens = num_prompt_tokens});
  }

  void DrawNextArrival() {
    if (load_.requests_per_s == 0.0) return;
    next_arrival_ = now_ + random_.Exponential(absl::Seconds(1) / load_.requests_per_s);
  }

  void SendSteps() {
    while (const std::optional<router::StepPlan> plan = scheduler_.NextStep(now_)) {
      in_flight_.push_back(worker_.Run(*plan, now_));
    }
  }

  void TakeResult() {
    TimedWorker::Done done = std::move(in_flight_.front());
    in_flight_.pop_front();
    Expect(scheduler_.Apply(std::move(done.outcome), now_));
    for (const router::SchedulerEvent& event : scheduler_.TakeEvents()) {
      if (const auto* tokens = std::get_if<router::TokensEvent>(&event)) {
        TakeTokens(*tokens);
      } else if (const auto* finished = std::get_if<router::FinishedEvent>(&event)) {
        Expect(finished->error);
        End(finished->request);
      }
    }
  }

  void TakeTokens(const router::TokensEvent& event) {
    Running& request = running_.at(event.request);
    const bool is_first = request.num_output_tokens == 0;
    const bool gap_counts = (request.origin == Origin::kEndless) == (load_.num_endless > 0);
    if (is_first) request.first_token = now_;
    if (now_ >= begin_) {
      num_output_tokens_ += event.tokens.size();
      if (is_first) {
        num_prompt_tokens_ += request.num_prompt_tokens;
        figures_.first_ms.push_back(absl::ToDoubleMilliseconds(now_ - request.submitted));
      } else if (gap_counts) {
        figures_.gap_ms.push_back(absl::ToDoubleMilliseconds(now_ - request.last_token));
      }
    }
    request.num_output_tokens += static_cast<uint32_t>(event.tokens.size());
    request.last_token = now_;
  }

  void End(RequestKey key) {
    const Running request = running_.extract(key).mapped();
    LOCKSTEP_CHECK(request.origin != Origin::kEndless, "an endless stream ended");
    if (now_ >= begin_) {
      const absl::Duration per_token =
          (request.last_token - request.first_token) / std::max(request.num_output_tokens - 1, 1u);
      figures_.token_ms.push_back(absl::ToDoubleMilliseconds(per_token));
      if (request.first_token - request.submitted <= load_.good_first &&
          per_token <= load_.good_per_token) {
        ++num_good_;
      }
    }
    if (request.origin == Origin::kStream) SubmitOne(Origin::kStream);
  }

  const Load load_;
  RandomDraws random_;
  router::Scheduler scheduler_;
  TimedWorker worker_;
  Instant now_;
  Instant begin_;
  Instant next_arrival_ = Instant::InfiniteFuture();
  RequestKey next_key_ = 1;
  absl::flat_hash_map<RequestKey, Running> running_;
  std::deque<TimedWorker::Done> in_flight_;
  uint64_t num_output_tokens_ = 0;
  uint64_t num_prompt_tokens_ = 0;
  uint64_t num_good_ = 0;
  uint64_t num_refused_ = 0;
  LoadFigures figures_;
};

}  // namespace

LoadFigures Simulate(const Load& load) { return Simulation(load).Run(); }

}  // namespace lockstep::bench
