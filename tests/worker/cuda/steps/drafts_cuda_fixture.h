#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_test.h"
#include "tests/support/rank_devices.h"
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
inline std::string Difference(const DraftsText& actual, const DraftsText& expected) {
  if (actual.tokens != expected.tokens) {
    return fmt::format("tokens {} instead of {}", fmt::join(actual.tokens, " "),
                       fmt::join(expected.tokens, " "));
  }
  if (actual.cause != expected.cause) return "another cause of the stop";
  if (actual.logprobs != expected.logprobs) return "other log-probabilities";
  return actual.kv == expected.kv ? "" : "other keys or values";
}

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

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    auto loaded = LoadCudaModel(WriteConfig(), {.rank_devices = testing::RankDevices(GetParam()),
                                                .num_kv_blocks = 256,
                                                .max_slots = kNumSlots,
                                                .max_step_tokens = 1024,
                                                .max_logits_rows = 64,
                                                .tensor_parallel = GetParam(),
                                                .random_weights = true});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    model_ = *std::move(loaded);
    for (const auto& [source, runner] : {std::pair{CudaDraftSource::kNone, &plain_},
                                         std::pair{CudaDraftSource::kScript, &scripted_},
                                         std::pair{CudaDraftSource::kRepeats, &repeating_}}) {
      auto created = CudaStepRunner::Create(*model_, kLimits, /*incarnation=*/1, source);
      ASSERT_TRUE(created.ok()) << created.status();
      *runner = *std::move(created);
    }
  }
  void TearDown() override {
    plain_.reset();
    scripted_.reset();
    repeating_.reset();
    model_.reset();
    CudaTest::TearDown();
  }

  // Decodes a sequence alone. With `script`, the runner must take one.
  DraftsText Decode(CudaStepRunner& runner, const DraftsSequence& sequence,
                    const Script* script = nullptr, DraftsWork* work_of_all = nullptr) {
    ClearPool();
    runner.BeginLease(++epoch_);
    if (script != nullptr) runner.SetDraftScript(kSlot, *script);
    testing::StepSequence steps(epoch_);
    runner.Submit(FirstStep(sequence, steps));
    DraftsText text;
    DraftsWork work;
    Take(TakeResult(runner), text, work);
    uint32_t num_submitted = 0;
    while (text.cause == v1::STOP_CAUSE_UNSPECIFIED && work.num_steps < 200) {
      while (runner.num_pending() < sequence.depth) {
        v1::StepRequest step = steps.Next();
        step.add_run_slots(kSlot);
        if (&runner != plain_.get()) step.add_draft_limits(sequence.limit(num_submitted));
        ++num_submitted;
        runner.Submit(step);
      }
      TakeStep(runner, text, work);
    }
    // Steps behind the end keep nothing.
    DraftsText behind;
    DraftsWork unused;
    while (runner.num_pending() > 0) Take(TakeResult(runner), behind, unused);
    EXPECT_EQ(behind, DraftsText());
    runner.EndLease();
    if (text.cause == v1::STOP_CAUSE_LENGTH) text.kv = PoolBytes();
    if (work_of_all != nullptr) *work_of_all = work;
    return text;
  }

  static std::vector<TokenId> WholeText(const DraftsSequence& sequence, const DraftsText& text) {
    std::vector<TokenId> whole = sequence.prompt;
    whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
    return whole;
  }

  static v1::StepResult TakeResult(CudaStepRunner& runner) {
    v1::StepResult result;
    StepStats stats;
    while (!runner.TakeResult(&result, &stats)) {
    }
    EXPECT_FALSE(result.has_refusal()) << result.refusal().message();
    EXPECT_EQ(result.errors_size(), 0) << result.ShortDebugString();
    return result;
  }

  void ClearPool() {
    model_->OnRanks([this](int rank) {
      const std::span<std::byte> kv = model_->rank(rank).kv_bytes();
      EXPECT_EQ(cudaMemset(kv.data(), 0, kv.size()), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    });
  }
  // Of all ranks.
  std::vector<std::byte> PoolBytes() {
    std::vector<std::byte> all;
    for (int rank = 0; rank < model_->num_ranks(); ++rank) {
      const std::span<std::byte> kv = model_->rank(rank).kv_bytes();
      const size_t begin = all.size();
      all.resize(begin + kv.size());
      EXPECT_EQ(cudaMemcpy(all.data() + begin, kv.data(), kv.size(), cudaMemcpyDeviceToHost),
                cudaSuccess);
    }
    return all;
  }

  std::unique_ptr<CudaModel> model_;
  std::unique_ptr<CudaStepRunner> plain_, scripted_, repeating_;
  uint64_t epoch_ = 0;

 private:
  static std::string WriteConfig() {
    const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"dtype", "bfloat16"},
                                   {"vocab_size", kDraftsVocabSize},
                                   {"hidden_size", 64},
                                   {"intermediate_size", 128},
                                   {"num_hidden_layers", 2},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2},
                                   {"head_dim", 16},
                                   {"max_position_embeddings", 1024},
                                   {"rms_norm_eps", 1e-6},
                                   {"rope_theta", 10000.0},
                                   {"tie_word_embeddings", true},
                                   {"hidden_act", "silu"},
                                   {"eos_token_id", 1}};
    const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) / "drafts-cuda-test";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config;
    return folder;
  }

  // Just enough blocks: the last token is never computed.
  static v1::StepRequest FirstStep(const DraftsSequence& sequence, testing::StepSequence& steps) {
    const uint32_t max_total_tokens = sequence.sampling.max_total_tokens();
    v1::StepRequest step = steps.Next();
    v1::StartedSlot& started = *step.add_started();
    started = testing::MakeStarted(kSlot, sequence.prompt,
                                   testing::BlockRange(2, (max_total_tokens - 1 + 15) / 16),
                                   max_total_tokens);
    *started.mutable_sampling() = sequence.sampling;
    testing::AddRow(step, kSlot, static_cast<uint32_t>(sequence.prompt.size()));
    return step;
  }

  static void Take(const v1::StepResult& result, DraftsText& text, DraftsWork& work) {
    text.tokens.insert(text.tokens.end(), result.token_ids().begin(), result.token_ids().end());
    for (const v1::TokenLogprobs& entry : result.logprobs()) {
      text.logprobs.push_back(entry.SerializeAsString());
    }
    for (const uint32_t count : result.drafted_counts()) work.num_drafted += count;
    if (result.stop_causes_size() > 0) text.cause = result.stop_causes(0);
  }

  // The result of a decode step.
  static void TakeStep(CudaStepRunner& runner, DraftsText& text, DraftsWork& work) {
    const size_t num_before = text.tokens.size();
    const v1::StepResult result = TakeResult(runner);
    Take(result, text, work);
    const size_t num_kept = text.tokens.size() - num_before;
    const uint32_t drafted = result.drafted_counts_size() > 0 ? result.drafted_counts(0) : 0;
    EXPECT_GE(num_kept, 1u);
    EXPECT_LE(drafted, kMaxDrafts);
    EXPECT_LE(num_kept, drafted + 1);
    ++work.num_steps;
  }
};

}  // namespace lockstep::worker
