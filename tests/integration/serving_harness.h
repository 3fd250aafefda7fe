#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "router/core/scheduler.h"
#include "worker/cpu/step_runner.h"
#include "worker/model/forward_model.h"

namespace lockstep::testing {

// What one sequence showed to the outside, and the bits behind it.
struct SequenceRecord {
  std::vector<TokenId> tokens;
  std::vector<std::pair<TokenId, uint32_t>> logprob_bits;  // chosen token, its log-probability
  std::map<uint32_t, uint64_t> logit_hashes;               // position of the sampled token -> hash
  bool finished = false;
  router::FinishReason reason = router::FinishReason::kStop;
  absl::Status error;

  bool operator==(const SequenceRecord&) const = default;
};

struct RequestRecord {
  std::vector<SequenceRecord> samples;
  std::vector<uint32_t> prompt_logprob_bits;

  bool operator==(const RequestRecord&) const = default;
};

using Records = std::map<RequestKey, RequestRecord>;

// How often a schedule did what it was made to do.
struct ScheduleCounts {
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_hit_tokens = 0;
  uint64_t partial_prefills = 0;  // rows that computed some but not all of the tokens left
  uint64_t mixed_steps = 0;       // prefill and decode rows in one step
  uint64_t restarts = 0;
  uint64_t changed_on_recompute = 0;  // logits rows that differed when computed again
  uint64_t overlapped_steps = 0;      // planned while an earlier step's result was unknown
  uint64_t drafted_tokens = 0;
  uint64_t accepted_drafts = 0;
  uint32_t largest_batch = 0;
};

// One life of a worker as an adversary chooses it.
struct WorkerLife {
  router::WorkerLimits limits;
  uint64_t num_steps = UINT64_MAX;  // then the worker is lost with whatever is in flight
};

// The worker under test. `make_runner` is called for every life; the runner may be the same each
// time. Logits are reported to `observer` where the runner has them on the host.
struct WorkerUnderTest {
  using Observer = std::function<void(const worker::LogitsObservation&)>;

  worker::ForwardModelInfo info;
  std::function<std::shared_ptr<worker::StepRunner>(const worker::ExecutorLimits& limits,
                                                    Observer observer)>
      make_runner;
  uint32_t max_draft_tokens = 0;  // that a runner with a drafter may draft for a row
};

// A CpuStepRunner on `model`, which outlives the result.
WorkerUnderTest OnExecutor(worker::ForwardModel& model);

// The real scheduler, step codec and executor in one thread, without sockets: plans pile up, run
// and are acknowledged in an order that a seed decides. Records every token and the hash of every
// logits row.
class ServingHarness {
 public:
  ServingHarness(const WorkerUnderTest& worker, router::SchedulerConfig config, uint64_t seed);
  ~ServingHarness();

  void Submit(std::shared_ptr<const router::Request> request);
  void CancelLater(RequestKey request, uint64_t at_step) {
    cancellations_.emplace(at_step, request);
  }

  // Runs until every request ended; the last life never ends early. Requests are submitted in
  // order, a random few at a time. Stops at the first error, and fails the test.
  void Run(const std::vector<WorkerLife>& lives);

  const Records& records() const { return records_; }
  const ScheduleCounts& counts() const { return counts_; }

 private:
  struct InFlight;

  absl::Status RunLife(const WorkerLife& life, bool is_last);
  absl::Status SubmitSome();
  bool PlanOne();
  void SubmitOldest();
  absl::Status ApplyOldest();
  absl::Status CollectEvents();
  void Observe(const worker::LogitsObservation& observation);
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  const WorkerUnderTest& worker_;
  std::shared_ptr<worker::StepRunner> runner_;
  router::Scheduler scheduler_;
  std::mt19937_64 random_;
  Instant now_ = Instant();
  uint64_t epoch_ = 0;
  std::deque<std::shared_ptr<const router::Request>> to_submit_;
  std::multimap<uint64_t, RequestKey> cancellations_;
  std::deque<InFlight> in_flight_;  // planned; the first `num_submitted_` are with the runner
  size_t num_submitted_ = 0;
  std::map<SlotId, std::pair<RequestKey, uint32_t>> slot_owner_;  // as the executor sees slots
  std::map<SlotId, uint32_t> prefill_left_;  // known tokens not yet computed, likewise
  absl::Status observed_;                    // the last error of Observe
  Records records_;
  ScheduleCounts counts_;
};

}  // namespace lockstep::testing
