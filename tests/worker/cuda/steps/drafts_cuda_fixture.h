#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cuda_test.h"
#include "tests/worker/steps/step_messages.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_runner.h"

namespace lockstep::worker {

inline constexpr uint32_t kDraftsVocabSize = 64;
inline constexpr uint32_t kMaxDrafts = 4;

// Everything that a sequence shows.
struct DraftsText {
  std::vector<TokenId> tokens;  // generated
  std::vector<std::string> logprobs;
  v1::StopCause cause = v1::STOP_CAUSE_UNSPECIFIED;
  // The whole pool at the end, if the text ended by its length: then every place that was computed
  // holds a token of the text.
  std::vector<std::byte> kv;

  bool operator==(const DraftsText&) const = default;
};

// What differs, in words; empty: nothing.
std::string Difference(const DraftsText& actual, const DraftsText& expected);

struct DraftsWork {
  uint32_t num_steps = 0;  // after the prompt, until the text ends
  uint32_t num_drafted = 0;
};

// A sequence, and how it is to be decoded.
struct DraftsSequence {
  std::vector<TokenId> prompt = testing::MakeTokens(9, kDraftsVocabSize, 1);
  v1::SlotSampling sampling = testing::GreedySampling(30);
  // Of the n-th step; 0: plain.
  std::function<uint32_t(uint32_t)> limit = [](uint32_t) { return kMaxDrafts; };
  size_t depth = 1;  // steps under way
};

// What a script says at each position: the prompt, then what is to be drafted.
using Script = std::vector<TokenId>;

// One model with random weights, on one or two ranks, and three runners that use it in turn:
// without drafts, with a script, and with what occurred before.
class DraftsCudaTest : public testing::CudaTest, public ::testing::WithParamInterface<uint32_t> {
 protected:
  static constexpr SlotId kSlot = 3;
  static constexpr uint32_t kNumSlots = 32;
  static constexpr ExecutorLimits kLimits = {.max_slots = kNumSlots,
                                             .max_draft_tokens = kMaxDrafts};

  void SetUp() override;
  void TearDown() override;

  // Decodes a sequence alone. With `script`, the runner must take one.
  DraftsText Decode(CudaStepRunner& runner, const DraftsSequence& sequence,
                    const Script* script = nullptr, DraftsWork* work_of_all = nullptr);
  // Prompt and text.
  static std::vector<TokenId> WholeText(const DraftsSequence& sequence, const DraftsText& text);
  // Of the oldest step, which must be accepted and without errors.
  static v1::StepResult TakeResult(CudaStepRunner& runner);
  // Of all ranks.
  void ClearPool();
  std::vector<std::byte> PoolBytes();

  std::unique_ptr<CudaModel> model_;
  std::unique_ptr<CudaStepRunner> plain_, scripted_, repeating_;
  uint64_t epoch_ = 0;
};

}  // namespace lockstep::worker
