// Drafts on a GPU under any schedule; see draft_invariance_test.cc. Requests move between runners
// that draft by a script, from what occurred before, and not at all. Tokens and log-probabilities
// must be those of each request alone, without drafts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/integration/invariance/invariance_check.h"
#include "tests/integration/published_shapes.h"
#include "tests/support/cuda_test.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_runner.h"

namespace lockstep::testing {
namespace {

constexpr uint32_t kMaxDrafts = 4;

using Requests = std::vector<std::shared_ptr<const router::Request>>;
using Texts = std::map<std::pair<uint64_t, uint32_t>, std::vector<TokenId>>;  // by seed and sample

Texts TextsOf(const Requests& requests, const Records& records) {
  Texts texts;
  for (const auto& request : requests) {
    const std::vector<SequenceRecord>& samples = records.at(request->key).samples;
    for (uint32_t i = 0; i < samples.size(); ++i) {
      std::vector<TokenId>& text = texts[{request->sampling.seed, i}];
      text = request->prompt_tokens;
      text.insert(text.end(), samples[i].tokens.begin(), samples[i].tokens.end());
    }
  }
  return texts;
}

// A runner that writes a script for every sequence that starts: its text, with some lies.
class LyingRunner final : public worker::StepRunner {
 public:
  LyingRunner(worker::CudaStepRunner& runner, const Texts& texts)
      : runner_(runner), texts_(texts) {}

  const worker::StepBounds& bounds() const override { return runner_.bounds(); }
  void BeginLease(uint64_t epoch) override { runner_.BeginLease(epoch); }
  void EndLease() override { runner_.EndLease(); }
  void Submit(const worker::v1::StepRequest& step) override {
    for (const worker::v1::StartedSlot& started : step.started()) {
      runner_.SetDraftScript(started.slot(), Script(started.sampling()));
    }
    runner_.Submit(step);
  }
  size_t num_pending() const override { return runner_.num_pending(); }
  bool TakeResult(worker::v1::StepResult* result, worker::StepStats* stats) override {
    return runner_.TakeResult(result, stats);
  }

 private:
  std::vector<TokenId> Script(const worker::v1::SlotSampling& sampling) {
    const uint32_t vocab_size = runner_.bounds().vocab_size;
    std::vector<TokenId> script = texts_.at({sampling.seed(), sampling.sample_index()});
    for (TokenId& draft : script) {
      if (random_() % 6 == 0) draft = static_cast<TokenId>(random_() % (vocab_size + 3));
    }
    return script;
  }

  worker::CudaStepRunner& runner_;
  const Texts& texts_;
  std::mt19937_64 random_{3};
};

class DraftInvarianceCuda : public CudaTest {
 protected:
  std::shared_ptr<worker::CudaStepRunner> MakeRunner(worker::CudaDraftSource source) {
    auto runner = worker::CudaStepRunner::Create(
        *model_, {.max_slots = 256, .max_draft_tokens = kMaxDrafts}, /*incarnation=*/1, source);
    EXPECT_TRUE(runner.ok()) << runner.status();
    return *std::move(runner);
  }

  void Check(const ModelCase& test) {
    worker::ModelOptions options;
    options.num_kv_blocks = test.num_blocks;
    options.max_step_tokens = 1024;
    options.max_logits_rows = 256;
    options.random_weights = test.random_weights;
    options.kv_type = test.kv_type;
    auto model = worker::LoadCudaModel(test.path, options);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    const auto plain = MakeRunner(worker::CudaDraftSource::kNone);
    const auto scripted = MakeRunner(worker::CudaDraftSource::kScript);
    const auto repeating = MakeRunner(worker::CudaDraftSource::kRepeats);

    WorkloadShape shape = test.shape;
    shape.vocab_size = model_->info().vocab_size;
    const Requests requests = MakeWorkload(shape, /*seed=*/20261121);
    const WorkerUnderTest without_drafts = {
        .info = model_->info(),
        .make_runner = [plain](const worker::ExecutorLimits&, WorkerUnderTest::Observer) {
          return plain;
        }};
    const Records alone = RunAlone(without_drafts, requests);
    const Texts texts = TextsOf(requests, alone);
    const std::vector<std::shared_ptr<worker::StepRunner>> runners = {
        std::make_shared<LyingRunner>(*scripted, texts), repeating, plain,
        std::make_shared<LyingRunner>(*scripted, texts)};
    size_t num_lives = 0;
    const WorkerUnderTest drafting = {
        .info = model_->info(),
        .make_runner =
            [&](const worker::ExecutorLimits&, WorkerUnderTest::Observer) {
              return runners[num_lives++ % runners.size()];
            },
        .max_draft_tokens = kMaxDrafts};
    const auto lives =
        AdversarialLives(drafting.info, test.num_restarts, test.min_blocks, /*seed=*/7);
    ScheduleCounts counts;
    const Records together = RunTogether(drafting, requests, lives, /*seed=*/11, &counts);
    if (HasFatalFailure()) return;
    fmt::print("{}: steps {} overlapped {} preemptions {} restarts {} drafts {} kept {}\n",
               test.name, counts.steps, counts.overlapped_steps, counts.preemptions,
               counts.restarts, counts.drafted_tokens, counts.accepted_drafts);
    EXPECT_GE(counts.restarts, test.num_restarts);
    if (test.expect_pressure) {
      EXPECT_GE(counts.preemptions, 20u);
    }
    EXPECT_GE(counts.overlapped_steps, 50u);
    EXPECT_GE(counts.accepted_drafts, 400u);
    EXPECT_GE(counts.drafted_tokens, counts.accepted_drafts + 200);
    EXPECT_THAT(Differences(alone, together, /*limit=*/10), ::testing::IsEmpty());
  }

  std::unique_ptr<worker::CudaModel> model_;
};

TEST_F(DraftInvarianceCuda, TinyLlama) { Check(TinyCase("tiny-llama")); }
TEST_F(DraftInvarianceCuda, TinyQwen3) { Check(TinyCase("tiny-qwen3")); }
TEST_F(DraftInvarianceCuda, TinyGpt2) { Check(TinyCase("tiny-gpt2")); }
// Single rows run in the kernel of all layers, rows with drafts op by op.
TEST_F(DraftInvarianceCuda, ShapeOfQwen3Of600MillionWeights) {
  Check(Qwen3Shape("qwen3-0.6b-drafts", 1024, 3072, 16));
}
TEST_F(DraftInvarianceCuda, ShapeOfQwen3Of8BillionWeights) {
  Check(Qwen3Shape("qwen3-8b-drafts", 4096, 12288, 32));
}
TEST_F(DraftInvarianceCuda, KeysAndValuesInFp8) {
  ModelCase of_600_million = Qwen3Shape("qwen3-0.6b-drafts", 1024, 3072, 16);
  of_600_million.kv_type = kernels::KvType::kFp8;
  Check(of_600_million);
}

}  // namespace
}  // namespace lockstep::testing
