#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/hash.h"
#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "worker/cpu/step_runner.h"

namespace lockstep::testing {

inline constexpr uint64_t kEpoch = 7;
inline constexpr uint64_t kIncarnation = 99;
inline constexpr uint32_t kVocabSize = 64;

// One executor on a fake model, one lease, on the calling thread.
class TestWorker {
 public:
  explicit TestWorker(const FakeModelOptions& options = {},
                      worker::ExecutorLimits limits = {.max_slots = 16},
                      worker::Drafter* drafter = nullptr, ConstraintEngine* constraints = nullptr);

  worker::v1::StepRequest NextStep() { return steps_.Next(); }
  worker::v1::StepResult Run(const worker::v1::StepRequest& step);
  worker::v1::StepResult RunAccepted(const worker::v1::StepRequest& step);
  // One step that starts `started` and runs all its tokens.
  worker::v1::StepResult Prefill(const worker::v1::StartedSlot& started);
  worker::v1::StepResult Decode(SlotId slot);

  FakeForwardModel& model() { return model_; }
  worker::CpuStepRunner& executor() { return executor_; }
  // Hash of the logits of every position that was sampled in the slot.
  const std::map<uint32_t, uint64_t>& logit_hashes(SlotId slot) { return logit_hashes_[slot]; }

 private:
  FakeForwardModel model_;
  worker::CpuStepRunner executor_;
  StepSequence steps_{kEpoch};
  std::map<SlotId, std::map<uint32_t, uint64_t>> logit_hashes_;
};

std::vector<TokenId> Tokens(const worker::v1::StepResult& result);
TokenId ArgMax(const std::vector<float>& logits);
// What greedy decoding gives, straight from the model's definition.
std::vector<TokenId> GreedyReference(const FakeForwardModel& model, std::vector<TokenId> tokens,
                                     uint32_t num_new);
// Every filter and penalty at once.
worker::v1::SlotSampling RichSampling(uint32_t max_total_tokens);

}  // namespace lockstep::testing
