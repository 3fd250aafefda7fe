// A request gives the same bits alone, without drafts, and under any schedule with drafts. Twice
// for every model: with a drafter that is right, lies, or says nothing, as it likes, and with
// n-grams. Workers come and go, and only some of them draft.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/hash.h"
#include "common/model_files/model_family.h"
#include "tests/common/temp_folder.h"
#include "tests/integration/invariance/invariance_check.h"
#include "tests/worker/model/plain_pebble.h"
#include "tests/worker/model/toy_family.h"
#include "worker/cpu/load_model.h"
#include "worker/drafters/ngram_drafter.h"
#include "worker/steps/drafter.h"

namespace lockstep::testing {
namespace {

constexpr uint32_t kMaxDrafts = 4;

using Requests = std::vector<std::shared_ptr<const router::Request>>;

// Knows the text of every sequence by its seed and sample.
class MoodyDrafter final : public worker::Drafter {
 public:
  MoodyDrafter(const Requests& requests, const Records& records, uint32_t vocab_size)
      : vocab_size_(vocab_size) {
    for (const auto& request : requests) {
      const std::vector<SequenceRecord>& samples = records.at(request->key).samples;
      for (uint32_t i = 0; i < samples.size(); ++i) {
        std::vector<TokenId>& text = texts_[{request->sampling.seed, i}];
        text = request->prompt_tokens;
        text.insert(text.end(), samples[i].tokens.begin(), samples[i].tokens.end());
      }
    }
  }

  void Draft(const worker::Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) override {
    const std::vector<TokenId>& text = texts_.at({slot.params().seed, slot.params().sample_index});
    const uint64_t mood = CombineHashes(++num_calls_, slot.num_known());
    if (mood % 4 == 0) return;
    for (size_t i = slot.num_known(); i < text.size() && drafts.size() < limit; ++i) {
      drafts.push_back(text[i]);
    }
    if (mood % 4 == 1 && !drafts.empty()) {
      TokenId& lie = drafts[(mood >> 8) % drafts.size()];
      lie = (lie + 1) % vocab_size_;
    }
    // Ids of no vocabulary, and more than it was asked for.
    if (mood % 16 == 2) drafts.push_back(vocab_size_ + 5);
    if (mood % 16 == 3) drafts.resize(drafts.size() + limit, 1);
  }

 private:
  const uint32_t vocab_size_;
  std::map<std::pair<uint64_t, uint32_t>, std::vector<TokenId>> texts_;
  uint64_t num_calls_ = 0;
};

// Counts what n-grams gave.
class CountingDrafter final : public worker::Drafter {
 public:
  explicit CountingDrafter(size_t* num_drafted) : num_drafted_(*num_drafted) {}

  void Draft(const worker::Slot& slot, uint32_t limit, std::vector<TokenId>& drafts) override {
    ngrams_.Draft(slot, limit, drafts);
    num_drafted_ += drafts.size();
  }

 private:
  worker::NgramDrafter ngrams_{{.min_repeat_tokens = 1}};
  size_t& num_drafted_;
};

// Makes the drafter of a worker's life.
using MakeDrafter = std::function<std::shared_ptr<worker::Drafter>()>;

// Some sequences run ahead only so far.
Requests WithDepths(const Requests& requests) {
  Requests changed;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto copy = std::make_shared<router::Request>(*requests[i]);
    if (i % 5 == 0) copy->max_rows_in_flight = 1 + i % 2;
    changed.push_back(std::move(copy));
  }
  return changed;
}

// Two of three lives draft. The counts that every drafter reaches are checked.
ScheduleCounts CheckTogether(const ModelCase& test, worker::ForwardModel& model,
                             const Requests& requests, const Records& alone,
                             const MakeDrafter& make_drafter) {
  std::vector<std::shared_ptr<worker::Drafter>> drafters;  // null in a life without drafts
  const WorkerUnderTest drafting = {
      .info = model.info(),
      .make_runner =
          [&](const worker::ExecutorLimits& limits, WorkerUnderTest::Observer observer) {
            drafters.push_back(drafters.size() % 3 != 1 ? make_drafter() : nullptr);
            auto runner = std::make_shared<worker::CpuStepRunner>(model, limits, /*incarnation=*/1,
                                                                  drafters.back().get());
            runner->set_logits_observer(std::move(observer));
            return runner;
          },
      .max_draft_tokens = kMaxDrafts};
  const auto lives =
      AdversarialLives(drafting.info, test.num_restarts, test.min_blocks, /*seed=*/7);
  ScheduleCounts counts;
  const Records together = RunTogether(drafting, WithDepths(requests), lives, /*seed=*/11, &counts);
  if (::testing::Test::HasFatalFailure()) return counts;
  fmt::print(
      "{}: steps {} overlapped {} preemptions {} hit tokens {} restarts {} drafts {} kept {}\n",
      test.name, counts.steps, counts.overlapped_steps, counts.preemptions,
      counts.prefix_hit_tokens, counts.restarts, counts.drafted_tokens, counts.accepted_drafts);
  EXPECT_GE(counts.restarts, test.num_restarts);
  EXPECT_GE(counts.preemptions, 20u);
  EXPECT_GE(counts.overlapped_steps, 50u);
  EXPECT_GE(counts.prefix_hit_tokens, 1000u);
  EXPECT_GE(counts.drafted_tokens, counts.accepted_drafts + 300);
  EXPECT_THAT(Differences(alone, together, /*limit=*/10), ::testing::IsEmpty());
  EXPECT_EQ(counts.changed_on_recompute, 0u);
  return counts;
}

void CheckDrafts(const ModelCase& test) {
  worker::ModelOptions options;
  options.num_kv_blocks = test.num_blocks;
  options.num_threads = test.num_threads;
  options.max_step_tokens = 512;
  absl::StatusOr<std::unique_ptr<worker::ForwardModel>> model =
      worker::LoadCpuModel(test.path, options);
  ASSERT_TRUE(model.ok()) << model.status();

  WorkloadShape shape = test.shape;
  shape.vocab_size = (*model)->info().vocab_size;
  const Requests requests = MakeWorkload(shape, /*seed=*/20261121);
  const Records alone = RunAlone(OnExecutor(**model), requests);
  {
    SCOPED_TRACE("any drafts");
    const auto drafter = std::make_shared<MoodyDrafter>(requests, alone, shape.vocab_size);
    const ScheduleCounts counts =
        CheckTogether(test, **model, requests, alone, [&] { return drafter; });
    EXPECT_GE(counts.accepted_drafts, 1000u);
  }
  SCOPED_TRACE("n-grams");
  size_t num_from_ngrams = 0;
  CheckTogether(test, **model, requests, alone,
                [&] { return std::make_shared<CountingDrafter>(&num_from_ngrams); });
  EXPECT_GE(num_from_ngrams, 300u);
}

TEST(DraftInvariance, TinyLlama) { CheckDrafts(TinyCase("tiny-llama")); }
TEST(DraftInvariance, TinyQwen3) { CheckDrafts(TinyCase("tiny-qwen3")); }
TEST(DraftInvariance, TinyGpt2) { CheckDrafts(TinyCase("tiny-gpt2")); }

// Two kinds of layers in two KV groups, one with a window of 32.
TEST(DraftInvariance, Pebble) {
  RegisterModelFamily(worker::PebbleFamily());
  const TempFolder folder;
  worker::WritePebbleCheckpoint(folder);
  ModelCase pebble = TinyCase("pebble");
  pebble.path = folder.path();
  CheckDrafts(pebble);
}

}  // namespace
}  // namespace lockstep::testing
