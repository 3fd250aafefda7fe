#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "common/ids.h"
#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::testing {

// Step messages from a router that has gone mad: most are nearly right, so that they get past the
// first checks. Values cluster around the borders of FakeModelOptions' defaults and eight slots.
class RandomSteps {
 public:
  // `rows_collide`: rows of one step may write the same place in the KV pool. The worker takes such
  // a step, but which row writes last is not defined, nor is anything that is computed from there.
  // `with_window`: the steps are of the model FakeModelWithWindow.
  RandomSteps(uint64_t epoch, uint64_t seed, bool rows_collide = true, bool with_window = false)
      : epoch_(epoch), rows_collide_(rows_collide), with_window_(with_window), random_(seed) {}

  // Rows get limits of drafts, most of them at most `max`.
  void AddDraftLimits(uint32_t max) { max_draft_limit_ = max; }

  worker::v1::StepRequest Next();
  // Takes the answer into account, so that numbering goes on after a refusal.
  void Observe(const worker::v1::StepResult& result);

 private:
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  // Mostly below `bound`, now and then at or far above it.
  uint32_t Around(uint32_t bound);
  SlotId AnySlot();  // mostly one that was started
  float AnyFloat();
  worker::v1::StartedSlot AnyStarted();
  void Start(worker::v1::StepRequest& step);
  bool RowsMayRun();  // rows_ in one step
  // Leaves the row out if it may not run beside those that the step has.
  void TryRow(worker::v1::StepRequest& step, SlotId slot, uint32_t num_tokens);
  void Spoil(worker::v1::StepRequest& step);
  void AddWindowBlocks(worker::v1::StartedSlot& started);
  void SpoilGroups(worker::v1::StepRequest& step);
  void Grow(worker::v1::StepRequest& step);

  const uint64_t epoch_;
  const bool rows_collide_;
  const bool with_window_;
  uint32_t max_draft_limit_ = 0;
  std::mt19937_64 random_;
  uint64_t last_step_id_ = 0;
  bool resync_ = false;
  std::vector<SlotId> started_;   // accepted since the latest resync
  std::vector<SlotId> starting_;  // by the message under way
  // As if every message were accepted: after a refusal comes a resync, which drops both.
  std::vector<SlotId> rows_;                // of the latest message
  std::map<SlotId, BlockId> first_blocks_;  // of the tables
};

}  // namespace lockstep::testing
