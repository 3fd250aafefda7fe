#include "tests/worker/cuda/steps/drafts_cuda_fixture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "tests/support/rank_devices.h"

namespace lockstep::worker {
namespace {

std::string WriteConfig() {
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
v1::StepRequest FirstStep(SlotId slot, const DraftsSequence& sequence,
                          testing::StepSequence& steps) {
  const uint32_t max_total_tokens = sequence.sampling.max_total_tokens();
  v1::StepRequest step = steps.Next();
  v1::StartedSlot& started = *step.add_started();
  started = testing::MakeStarted(slot, sequence.prompt,
                                 testing::BlockRange(2, (max_total_tokens - 1 + 15) / 16),
                                 max_total_tokens);
  *started.mutable_sampling() = sequence.sampling;
  testing::AddRow(step, slot, static_cast<uint32_t>(sequence.prompt.size()));
  return step;
}

void Take(const v1::StepResult& result, DraftsText& text, DraftsWork& work) {
  text.tokens.insert(text.tokens.end(), result.token_ids().begin(), result.token_ids().end());
  for (const v1::TokenLogprobs& entry : result.logprobs()) {
    text.logprobs.push_back(entry.SerializeAsString());
  }
  for (const uint32_t count : result.drafted_counts()) work.num_drafted += count;
  if (result.stop_causes_size() > 0) text.cause = result.stop_causes(0);
}

// Takes the result of a decode step.
void TakeStep(const v1::StepResult& result, DraftsText& text, DraftsWork& work) {
  const size_t num_before = text.tokens.size();
  Take(result, text, work);
  const size_t num_kept = text.tokens.size() - num_before;
  const uint32_t drafted = result.drafted_counts_size() > 0 ? result.drafted_counts(0) : 0;
  EXPECT_GE(num_kept, 1u);
  EXPECT_LE(drafted, kMaxDrafts);
  EXPECT_LE(num_kept, drafted + 1);
  ++work.num_steps;
}

}  // namespace

std::string Difference(const DraftsText& actual, const DraftsText& expected) {
  if (actual.tokens != expected.tokens) {
    return fmt::format("tokens {} instead of {}", fmt::join(actual.tokens, " "),
                       fmt::join(expected.tokens, " "));
  }
  if (actual.cause != expected.cause) return "another cause of the stop";
  if (actual.logprobs != expected.logprobs) return "other log-probabilities";
  return actual.kv == expected.kv ? "" : "other keys or values";
}

void DraftsCudaTest::SetUp() {
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
  for (const auto& [source, runner] :
       {std::pair{CudaDraftSource::kNone, &plain_}, std::pair{CudaDraftSource::kScript, &scripted_},
        std::pair{CudaDraftSource::kRepeats, &repeating_}}) {
    auto created = CudaStepRunner::Create(*model_, kLimits, /*incarnation=*/1, source);
    ASSERT_TRUE(created.ok()) << created.status();
    *runner = *std::move(created);
  }
}

void DraftsCudaTest::TearDown() {
  plain_.reset();
  scripted_.reset();
  repeating_.reset();
  model_.reset();
  CudaTest::TearDown();
}

DraftsText DraftsCudaTest::Decode(CudaStepRunner& runner, const DraftsSequence& sequence,
                                  const Script* script, DraftsWork* work_of_all) {
  ClearPool();
  runner.BeginLease(++epoch_);
  if (script != nullptr) runner.SetDraftScript(kSlot, *script);
  testing::StepSequence steps(epoch_);
  runner.Submit(FirstStep(kSlot, sequence, steps));
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
    TakeStep(TakeResult(runner), text, work);
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

std::vector<TokenId> DraftsCudaTest::WholeText(const DraftsSequence& sequence,
                                               const DraftsText& text) {
  std::vector<TokenId> whole = sequence.prompt;
  whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
  return whole;
}

v1::StepResult DraftsCudaTest::TakeResult(CudaStepRunner& runner) {
  v1::StepResult result;
  StepStats stats;
  while (!runner.TakeResult(&result, &stats)) {
  }
  EXPECT_FALSE(result.has_refusal()) << result.refusal().message();
  EXPECT_EQ(result.errors_size(), 0) << result.ShortDebugString();
  return result;
}

void DraftsCudaTest::ClearPool() {
  model_->OnRanks([this](int rank) {
    const std::span<std::byte> kv = model_->rank(rank).kv_bytes();
    EXPECT_EQ(cudaMemset(kv.data(), 0, kv.size()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  });
}

std::vector<std::byte> DraftsCudaTest::PoolBytes() {
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

}  // namespace lockstep::worker
