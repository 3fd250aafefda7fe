// Drafts change how many steps a text takes, and nothing of the text: tokens, log-probabilities,
// logits and KV are those of plain decoding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "tests/worker/steps/test_worker.h"
#include "tests/worker/steps/toy_drafters.h"
#include "worker/drafters/ngram_drafter.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AnyDrafter;
using ::lockstep::testing::BlockRange;
using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::GreedySampling;
using ::lockstep::testing::kVocabSize;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::RepeatDrafter;
using ::lockstep::testing::ReplayDrafter;
using ::lockstep::testing::RichSampling;
using ::lockstep::testing::TestWorker;
using ::lockstep::testing::Tokens;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr SlotId kSlot = 3;
constexpr uint32_t kMaxDrafts = 4;

// Everything that a sequence shows.
struct Text {
  std::vector<TokenId> tokens;  // generated
  std::vector<std::string> logprobs;
  std::map<uint32_t, uint64_t> logit_hashes;
  std::vector<TokenId> kv;  // tokens whose KV lies in the slot's blocks, in order
  v1::StopCause cause = v1::STOP_CAUSE_UNSPECIFIED;

  bool operator==(const Text&) const = default;
};

struct Work {
  uint32_t num_steps = 0;  // after the prompt
  uint32_t num_drafted = 0;
  uint32_t num_kept = 0;
};

// A sequence, and how it is to be decoded.
struct Sequence {
  std::vector<TokenId> prompt = MakeTokens(9, kVocabSize, 1);
  v1::SlotSampling sampling = GreedySampling(30);
  FakeModelOptions options;
  // Of the n-th step; 0: plain.
  std::function<uint32_t(uint32_t)> limit = [](uint32_t) { return 0; };
};

std::vector<BlockId> BlocksOf(const Sequence& sequence) {
  const uint32_t size = sequence.options.block_size_tokens;
  // Just enough: the last token is never computed.
  return BlockRange(2, (sequence.sampling.max_total_tokens() - 1 + size - 1) / size);
}

void Take(const v1::StepResult& result, Text& text, Work& work) {
  for (const TokenId token : result.token_ids()) text.tokens.push_back(token);
  for (const v1::TokenLogprobs& entry : result.logprobs()) {
    text.logprobs.push_back(entry.SerializeAsString());
  }
  work.num_kept += static_cast<uint32_t>(result.token_ids_size());
  for (const uint32_t count : result.drafted_counts()) work.num_drafted += count;
  if (result.stop_causes_size() > 0) text.cause = result.stop_causes(0);
}

Text Decode(const Sequence& sequence, Drafter* drafter, Work* work_of_all = nullptr) {
  TestWorker worker(sequence.options, {.max_slots = 16, .max_draft_tokens = kMaxDrafts}, drafter);
  const std::vector<BlockId> blocks = BlocksOf(sequence);
  v1::StartedSlot started =
      MakeStarted(kSlot, sequence.prompt, blocks, sequence.sampling.max_total_tokens());
  *started.mutable_sampling() = sequence.sampling;
  Text text;
  Work work;
  Take(worker.Prefill(started), text, work);
  while (text.cause == v1::STOP_CAUSE_UNSPECIFIED && work.num_steps < 200) {
    const uint32_t limit = drafter == nullptr ? 0 : sequence.limit(work.num_steps);
    v1::StepRequest step = worker.NextStep();
    step.add_run_slots(kSlot);
    if (limit > 0) step.add_draft_limits(limit);
    const v1::StepResult result = worker.RunAccepted(step);
    const size_t num_before = text.tokens.size();
    Take(result, text, work);
    const size_t num_kept = text.tokens.size() - num_before;
    const uint32_t drafted = result.drafted_counts_size() > 0 ? result.drafted_counts(0) : 0;
    EXPECT_LE(drafted, limit);
    EXPECT_LE(num_kept, drafted + 1);
    ++work.num_steps;
  }
  text.logit_hashes = worker.logit_hashes(kSlot);
  const auto num_computed = static_cast<uint32_t>(sequence.prompt.size() + text.tokens.size() - 1);
  text.kv = worker.model().TokensIn(blocks, num_computed);
  if (work_of_all != nullptr) *work_of_all = work;
  return text;
}

std::vector<TokenId> WholeText(const Sequence& sequence, const Text& text) {
  std::vector<TokenId> whole = sequence.prompt;
  whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
  return whole;
}

struct NamedDrafter {
  std::string name;
  std::unique_ptr<Drafter> drafter;
};

// `whole`: what plain decoding gives, with the prompt.
std::vector<NamedDrafter> AllDrafters(const std::vector<TokenId>& whole) {
  std::vector<NamedDrafter> all;
  const auto add = [&all](std::string name, AnyDrafter::Function function) {
    all.push_back({std::move(name), std::make_unique<AnyDrafter>(std::move(function))});
  };
  all.push_back({"replays", std::make_unique<ReplayDrafter>(whole, 10, kVocabSize)});
  all.push_back({"is half right", std::make_unique<ReplayDrafter>(whole, 5, kVocabSize)});
  all.push_back({"is always wrong", std::make_unique<ReplayDrafter>(whole, 0, kVocabSize)});
  all.push_back({"repeats", std::make_unique<RepeatDrafter>()});
  all.push_back({"looks up n-grams", std::make_unique<NgramDrafter>()});
  all.push_back({"looks up single tokens",
                 std::make_unique<NgramDrafter>(NgramDrafterOptions{.min_repeat_tokens = 1})});
  add("is silent", [](const Slot&, uint32_t, std::vector<TokenId>&) {});
  add("is random", [random = std::make_shared<std::mt19937_64>(7)](const Slot&, uint32_t limit,
                                                                   std::vector<TokenId>& drafts) {
    for (uint64_t i = (*random)() % (limit + 1); i > 0; --i) {
      drafts.push_back(static_cast<TokenId>((*random)() % kVocabSize));
    }
  });
  add("has ids of no vocabulary",
      [whole](const Slot& slot, uint32_t, std::vector<TokenId>& drafts) {
        if (slot.num_known() < whole.size()) drafts.push_back(whole[slot.num_known()]);
        drafts.insert(drafts.end(), {kVocabSize, 0xffffffff, 1});
      });
  add("drafts more than the limit",
      [whole](const Slot& slot, uint32_t, std::vector<TokenId>& drafts) {
        drafts.assign(whole.begin() + slot.num_known(), whole.end());
        drafts.resize(drafts.size() + 1000, 1);
      });
  return all;
}

// Every drafter gives the text of plain decoding.
void ExpectEqualTexts(Sequence sequence) {
  const Text plain = Decode(sequence, nullptr);
  ASSERT_NE(plain.cause, v1::STOP_CAUSE_UNSPECIFIED);
  for (const uint32_t limit : {1u, 2u, 3u, kMaxDrafts}) {
    sequence.limit = [limit](uint32_t) { return limit; };
    for (const NamedDrafter& named : AllDrafters(WholeText(sequence, plain))) {
      EXPECT_EQ(Decode(sequence, named.drafter.get()), plain)
          << "a drafter that " << named.name << ", limit " << limit;
    }
  }
}

TEST(CpuStepRunnerDraftsTest, GreedyTextsAreEqual) { ExpectEqualTexts({}); }

TEST(CpuStepRunnerDraftsTest, SampledTextsAreEqual) {
  for (const uint64_t seed : {1, 2, 3}) {
    Sequence sequence;
    sequence.sampling.set_temperature(1);
    sequence.sampling.set_seed(seed);
    ExpectEqualTexts(sequence);
  }
}

TEST(CpuStepRunnerDraftsTest, EveryFilterAndPenaltyGivesEqualTexts) {
  Sequence sequence;
  sequence.sampling = RichSampling(30);
  ExpectEqualTexts(sequence);
  sequence.sampling.set_temperature(0);
  ExpectEqualTexts(sequence);
  for (const TokenId token : {2u, 3u, 5u, 7u, 11u}) sequence.sampling.add_allowed_token_ids(token);
  ExpectEqualTexts(sequence);
}

TEST(CpuStepRunnerDraftsTest, LogprobsAreEqual) {
  Sequence sequence;
  sequence.sampling = RichSampling(30);
  sequence.sampling.set_num_logprobs(3);
  EXPECT_THAT(Decode(sequence, nullptr).logprobs, SizeIs(21));
  ExpectEqualTexts(sequence);
}

TEST(CpuStepRunnerDraftsTest, TheTextEndsAtAStopIdAtEveryPlaceOfARow) {
  const Text whole = Decode({}, nullptr);
  for (const TokenId stop : whole.tokens) {
    Sequence sequence;
    sequence.sampling.add_stop_token_ids(stop);
    ExpectEqualTexts(sequence);
    // Not before so many tokens.
    sequence.sampling.set_min_total_tokens(14);
    ExpectEqualTexts(sequence);
  }
}

TEST(CpuStepRunnerDraftsTest, TheTextEndsAtItsLengthAtEveryPlaceOfARow) {
  for (uint32_t max_total_tokens = 10; max_total_tokens <= 20; ++max_total_tokens) {
    Sequence sequence;
    sequence.sampling.set_max_total_tokens(max_total_tokens);
    ExpectEqualTexts(sequence);
  }
}

TEST(CpuStepRunnerDraftsTest, RowsCrossBordersOfBlocks) {
  for (uint32_t num_prompt = 12; num_prompt <= 18; ++num_prompt) {
    Sequence sequence;
    sequence.options.block_size_tokens = 16;
    sequence.prompt = MakeTokens(num_prompt, kVocabSize, num_prompt);
    sequence.sampling.set_max_total_tokens(num_prompt + 21);
    ExpectEqualTexts(sequence);
  }
}

TEST(CpuStepRunnerDraftsTest, TheLimitMayChangeInEveryStep) {
  Sequence sequence;
  sequence.sampling = RichSampling(60);
  const Text plain = Decode(sequence, nullptr);
  for (const uint64_t seed : {1, 2, 3}) {
    const auto random = std::make_shared<std::mt19937_64>(seed);
    sequence.limit = [random](uint32_t) {
      return static_cast<uint32_t>((*random)() % (kMaxDrafts + 1));
    };
    for (const NamedDrafter& named : AllDrafters(WholeText(sequence, plain))) {
      EXPECT_EQ(Decode(sequence, named.drafter.get()), plain) << named.name;
    }
  }
}

TEST(CpuStepRunnerDraftsTest, RightDraftsSaveSteps) {
  Sequence sequence;
  sequence.limit = [](uint32_t) { return 3; };
  const Text plain = Decode(sequence, nullptr);
  const std::vector<TokenId> whole = WholeText(sequence, plain);
  ReplayDrafter right(whole, 10, kVocabSize);
  Work work;
  Decode(sequence, &right, &work);
  EXPECT_EQ(work.num_steps, 5u) << "20 tokens, 4 a step";
  EXPECT_EQ(work.num_drafted, 15u);
  ReplayDrafter wrong(whole, 0, kVocabSize);
  Decode(sequence, &wrong, &work);
  EXPECT_EQ(work.num_steps, 20u);
}

TEST(CpuStepRunnerDraftsTest, RowsThatRepeatRepeatTheirLimits) {
  Sequence sequence;
  const std::vector<TokenId> whole = WholeText(sequence, Decode(sequence, nullptr));
  ReplayDrafter drafter(whole, 10, kVocabSize);
  TestWorker worker({}, {.max_slots = 16, .max_draft_tokens = kMaxDrafts}, &drafter);
  worker.Prefill(MakeStarted(kSlot, sequence.prompt, BlocksOf(sequence), 30));
  v1::StepRequest step = worker.NextStep();
  step.add_run_slots(kSlot);
  step.add_draft_limits(2);
  EXPECT_THAT(worker.RunAccepted(step).sampled_counts(), ElementsAre(3));
  step = worker.NextStep();
  step.set_repeat_rows(true);
  const v1::StepResult result = worker.RunAccepted(step);
  EXPECT_THAT(result.sampled_counts(), ElementsAre(3));
  EXPECT_THAT(result.drafted_counts(), ElementsAre(2));
}

// --- rows that wait ---

TEST(CpuStepRunnerDraftsTest, ARowThatWaitsKeepsNothingAndGoesOnLater) {
  Sequence sequence;
  sequence.sampling = RichSampling(20);
  const Text plain = Decode(sequence, nullptr);
  const std::vector<TokenId> whole = WholeText(sequence, plain);
  ReplayDrafter drafter(whole, 7, kVocabSize);
  TestWorker worker({}, {.max_slots = 16, .max_draft_tokens = kMaxDrafts}, &drafter);
  std::mt19937_64 random(5);
  worker.executor().set_may_choose([&](SlotId, uint32_t) { return random() % 2 == 0; });
  v1::StartedSlot started = MakeStarted(kSlot, sequence.prompt, BlocksOf(sequence), 20);
  *started.mutable_sampling() = sequence.sampling;
  Text text;
  Work work;
  Take(worker.Prefill(started), text, work);
  uint32_t num_waits = text.tokens.empty() ? 1 : 0;
  while (text.cause == v1::STOP_CAUSE_UNSPECIFIED && work.num_steps < 200) {
    v1::StepRequest step = worker.NextStep();
    step.add_run_slots(kSlot);
    step.add_draft_limits(2);
    const v1::StepResult result = worker.RunAccepted(step);
    if (result.token_ids_size() == 0) {
      ++num_waits;
      EXPECT_THAT(result.sampled_slots(), IsEmpty());
      EXPECT_THAT(result.drafted_counts(), IsEmpty());
      EXPECT_THAT(result.inert_slots(), IsEmpty());
    }
    Take(result, text, work);
    ++work.num_steps;
  }
  EXPECT_GT(num_waits, 2u);
  EXPECT_EQ(text.tokens, plain.tokens);
  EXPECT_EQ(worker.logit_hashes(kSlot), plain.logit_hashes);
}

// --- refusals ---

TEST(CpuStepRunnerDraftsTest, WithoutADrafterLimitsAreRefused) {
  TestWorker worker({}, {.max_slots = 16, .max_draft_tokens = kMaxDrafts});
  EXPECT_EQ(worker.executor().bounds().max_draft_tokens, 0u);
  worker.Prefill(MakeStarted(kSlot, MakeTokens(5, kVocabSize, 4), BlockRange(0, 8), 16));
  v1::StepRequest step = worker.NextStep();
  step.add_run_slots(kSlot);
  step.add_draft_limits(1);
  const v1::StepResult result = worker.Run(step);
  EXPECT_EQ(result.refusal().code(), static_cast<uint32_t>(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(result.refusal().message(), HasSubstr("draft_limits: this worker announced no"));
}

TEST(CpuStepRunnerDraftsTest, ARowThatFailsBehindARightDraftReportsWhatItKept) {
  Sequence sequence;
  const std::vector<TokenId> whole = WholeText(sequence, Decode(sequence, nullptr));
  ReplayDrafter drafter(whole, 10, kVocabSize);
  TestWorker worker({}, {.max_slots = 16, .max_draft_tokens = kMaxDrafts}, &drafter);
  worker.Prefill(MakeStarted(kSlot, sequence.prompt, BlocksOf(sequence), 30));
  worker.model().set_after_forward([](const ForwardBatch&, std::span<float> logits) {
    std::fill_n(logits.begin() + 2 * kVocabSize, kVocabSize,
                std::numeric_limits<float>::quiet_NaN());
  });
  v1::StepRequest step = worker.NextStep();
  step.add_run_slots(kSlot);
  step.add_draft_limits(3);
  const v1::StepResult result = worker.RunAccepted(step);
  EXPECT_THAT(Tokens(result), ElementsAre(whole[10], whole[11]));
  ASSERT_THAT(result.errors(), SizeIs(1));
  EXPECT_EQ(result.errors(0).slot(), kSlot);
  EXPECT_EQ(worker.executor().last_step().num_live_slots, 0u);
}

}  // namespace
}  // namespace lockstep::worker
