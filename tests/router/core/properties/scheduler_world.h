#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/core/scheduler.h"
#include "tests/router/core/model/model_worker.h"
#include "tests/router/core/model/reference_model.h"
#include "tests/router/core/properties/plan_observer.h"
#include "tests/router/core/properties/random_source.h"

namespace lockstep::router::testing {

// How often each kind of thing happened.
using EventCounts = std::map<std::string, uint64_t>;

// A scheduler, a worker that runs late, clients that change their minds, and everything that can go
// wrong, all drawn from one seed. After each operation the scheduler's integrity, its accounts and
// every event that it sent are checked; the first violation is returned.
class SchedulerWorld {
 public:
  struct Kind {
    bool has_window = false;  // workers have two groups of KV
    bool has_drafts = false;  // rows keep several tokens, wait, or run ahead only so far
  };
  SchedulerWorld(uint64_t seed, EventCounts& counts, Kind kind);

  absl::Status RandomOperation();
  // No more requests, no more faults: everything must end, and every block come back.
  absl::Status Drain();
  // Of every plan so far.
  uint64_t plan_digest() const { return plan_digest_; }

 private:
  struct Sample {
    LoneRun reference;
    std::vector<TokenId> delivered;
    bool ended = false;
    bool started = false;  // once, by any worker
    uint32_t num_preemptions = 0;
    bool stop_requested = false;
    bool row_failed = false;
    uint32_t num_refusals = 0;
    bool refused_alone = false;
    uint32_t num_losses = 0;  // since its last token
    bool lost_alone = false;  // at the last of them
  };
  struct Client {
    std::shared_ptr<const Request> request;
    std::vector<Sample> samples;
    bool admitted = false;
    bool cancelled = false;
    bool unserved = false;
    bool has_prompt_logprobs = false;
    bool other_bits = false;   // has output of another worker than the one now
    bool poison = false;       // the worker refuses every step that runs it
    bool late_poison = false;  // every one that does not start it
    bool kills = false;        // it does not refuse: it dies
  };
  using Owner = std::pair<RequestKey, uint32_t>;  // and sample index
  struct Planned {
    StepPlan plan;
    std::vector<Owner> owners;  // of the rows
  };
  struct Executed {
    ModelWorker::Executed step;
    std::vector<Owner> owners;
    uint32_t num_prefill_tokens = 0;
  };

  // Operations.
  absl::Status Submit();
  absl::Status Plan();
  absl::Status Execute(bool with_faults);
  absl::Status Deliver();
  absl::Status DeliverCorrupted();
  absl::Status Cancel();
  absl::Status StopString();
  absl::Status PassTime();
  absl::Status PassTime(absl::Duration duration);
  absl::Status FailUnserved();
  absl::Status LoseWorker();
  absl::Status DrainWorker();
  absl::Status Attach();
  absl::Status ChangeBits();

  std::shared_ptr<const Request> MakeRequest();
  std::vector<TokenId> MakePrompt();
  WorkerLimits MakeLimits();
  void AddWindow(WorkerLimits& limits);
  SchedulerConfig MakeConfig();
  // A change that no worker may make to an outcome.
  std::string Corrupt(StepOutcome& outcome);
  Client* PickClient();
  template <typename Matches>
  bool AnyInFlight(Matches matches) const;
  absl::Status OnNoPlan();
  bool QueueIsFull(size_t num_prompt_tokens) const;
  // Whether a refusal may say that the deadline of `request` is too near.
  absl::Status CheckDeadlineRefusal(const Request& request);
  bool RunsPoison(const Planned& planned, bool kills) const;
  absl::Status OnStarted(const StartedSlot& started);
  void Digest(const StepPlan& plan);
  void NoteRefused(const Planned& planned);
  void NoteLost();

  // Checks.
  absl::Status CheckEverything();
  absl::Status OnEvent(const StartedEvent& event);
  absl::Status OnEvent(const PromptLogprobsEvent& event);
  absl::Status OnEvent(const TokensEvent& event);
  absl::Status OnEvent(const PreemptedEvent& event);
  absl::Status OnEvent(const FinishedEvent& event);
  absl::Status CheckEnding(const Client& client, const Sample& sample, const FinishedEvent& event);
  absl::Status CheckFailure(const Client& client, const Sample& sample, const absl::Status& error);
  Sample* FindOpen(RequestKey key, uint32_t sample_index);
  void Count(const std::string& what, uint64_t by = 1) { counts_[what] += by; }
  void CountWorker();

  RandomSource random_;
  const Kind kind_;
  EventCounts& counts_;
  Instant now_ = Instant();
  std::vector<std::vector<TokenId>>
      texts_;  // prompts are their prefixes, so that they share blocks
  std::deque<std::vector<TokenId>> ended_texts_;  // what clients may continue
  SchedulerConfig config_;
  WorkerLimits limits_;
  std::unique_ptr<SchedulingPolicy> order_;  // equal to the scheduler's
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelWorker> worker_;
  bool worker_drains_ = false;
  absl::Duration compute_on_lease_;  // of the steps of the latest worker
  bool measured_prompt_ = false;     // one of them computed prompt tokens
  std::unique_ptr<PlanObserver> observer_;
  std::deque<Planned> planned_;           // not executed
  std::deque<Executed> executed_;         // not acknowledged
  std::map<SlotId, Owner> slot_owners_;   // as planned
  std::map<RequestKey, Client> clients_;  // not ended
  RequestKey next_key_ = 1;
  uint64_t plan_digest_ = 0;
};

template <typename Matches>
bool SchedulerWorld::AnyInFlight(Matches matches) const {
  const auto any = [&matches](const auto& step) {
    return std::ranges::any_of(step.owners, matches);
  };
  return std::ranges::any_of(planned_, any) || std::ranges::any_of(executed_, any);
}

}  // namespace lockstep::router::testing
