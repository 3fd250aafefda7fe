// Drafts on a GPU change how many steps a text takes, and nothing of the text: tokens,
// log-probabilities and KV are those of plain decoding. The planted builds of this file
// (LOCKSTEP_EXPECT_DIFFERENCES) link a kernel with a fault, and must see differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/cuda/steps/drafts_cuda_fixture.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kVocab = kDraftsVocabSize;

TokenId Other(TokenId token) { return (token + 1) % kVocab; }

// `whole`: prompt and text of plain decoding. Each script has a draft for every position.
std::map<std::string, Script> AllScripts(const std::vector<TokenId>& whole) {
  std::map<std::string, Script> scripts;
  std::mt19937_64 random(7);
  for (size_t i = 0; i < whole.size(); ++i) {
    scripts["right"].push_back(whole[i]);
    scripts["always wrong"].push_back(Other(whole[i]));
    scripts["half right"].push_back(random() % 2 == 0 ? whole[i] : Other(whole[i]));
    scripts["mostly right"].push_back(random() % 8 != 0 ? whole[i] : Other(whole[i]));
    scripts["random"].push_back(static_cast<TokenId>(random() % kVocab));
    // The first ids that are no tokens, and the last ones.
    scripts["of no vocabulary"].push_back(i % 3 == 1 ? kVocab : i % 5 == 4 ? 0xFFFFFFFF : whole[i]);
  }
  return scripts;
}

v1::SlotSampling SampledBy(uint64_t seed, uint32_t max_total_tokens) {
  v1::SlotSampling sampling = testing::GreedySampling(max_total_tokens);
  sampling.set_temperature(1);
  sampling.set_seed(seed);
  return sampling;
}

class StepRunnerDraftsCudaTest : public DraftsCudaTest {
 protected:
  // Every script, and what occurred before, gives the text of plain decoding.
  void ExpectEqualTexts(DraftsSequence sequence) {
    const DraftsText plain = Decode(*plain_, sequence);
    ASSERT_NE(plain.cause, v1::STOP_CAUSE_UNSPECIFIED);
    for (const uint32_t limit : {1u, 2u, kMaxDrafts}) {
      sequence.limit = [limit](uint32_t) { return limit; };
      for (const auto& [name, script] : AllScripts(WholeText(sequence, plain))) {
        EXPECT_EQ(Difference(Decode(*scripted_, sequence, &script), plain), "")
            << "drafts that are " << name << ", limit " << limit;
      }
      EXPECT_EQ(Difference(Decode(*repeating_, sequence), plain), "") << "repeats, limit " << limit;
    }
  }
};

#ifdef LOCKSTEP_EXPECT_DIFFERENCES

TEST_P(StepRunnerDraftsCudaTest, ThePlantedFaultIsFound) {
  bool differs = false;
  for (const uint64_t seed : {1, 2, 3}) {
    DraftsSequence sequence;
    sequence.sampling = SampledBy(seed, 60);
    const DraftsText plain = Decode(*plain_, sequence);
    for (const auto& [name, script] : AllScripts(WholeText(sequence, plain))) {
      differs = differs || Decode(*scripted_, sequence, &script).tokens != plain.tokens;
    }
  }
  EXPECT_TRUE(differs) << "a fault in the kernels went unnoticed";
}

#else

TEST_P(StepRunnerDraftsCudaTest, GreedyTextsAreEqual) { ExpectEqualTexts({}); }

TEST_P(StepRunnerDraftsCudaTest, SampledTextsAreEqual) {
  for (const uint64_t seed : {1, 2, 3}) {
    DraftsSequence sequence;
    sequence.sampling = SampledBy(seed, 40);
    ExpectEqualTexts(sequence);
  }
}

TEST_P(StepRunnerDraftsCudaTest, EveryFilterGivesEqualTexts) {
  DraftsSequence sequence;
  sequence.sampling = SampledBy(5, 40);
  sequence.sampling.set_top_k(20);
  sequence.sampling.set_top_p(0.9f);
  ExpectEqualTexts(sequence);
  sequence.sampling.set_min_p(0.02f);
  sequence.sampling.add_logit_bias_ids(3);
  sequence.sampling.add_logit_bias_values(2.0f);
  for (const TokenId token : {2u, 3u, 5u, 7u, 11u, 13u}) {
    sequence.sampling.add_allowed_token_ids(token);
  }
  ExpectEqualTexts(sequence);
}

TEST_P(StepRunnerDraftsCudaTest, LogprobsAreEqual) {
  DraftsSequence sequence;
  sequence.sampling = SampledBy(6, 30);
  sequence.sampling.set_num_logprobs(3);
  EXPECT_EQ(Decode(*plain_, sequence).logprobs.size(), 21u);
  ExpectEqualTexts(sequence);
}

TEST_P(StepRunnerDraftsCudaTest, TheTextEndsAtAStopIdAtEveryPlaceOfARow) {
  DraftsSequence sampled;
  sampled.sampling = SampledBy(9, 24);
  const DraftsText whole = Decode(*plain_, sampled);
  for (size_t i = 0; i < whole.tokens.size(); i += 2) {
    DraftsSequence sequence = sampled;
    sequence.sampling.add_stop_token_ids(whole.tokens[i]);
    ExpectEqualTexts(sequence);
    // Not before so many tokens.
    sequence.sampling.set_min_total_tokens(14);
    ExpectEqualTexts(sequence);
  }
}

TEST_P(StepRunnerDraftsCudaTest, TheTextEndsAtItsLengthAtEveryPlaceOfARow) {
  for (uint32_t max_total_tokens = 11; max_total_tokens <= 20; ++max_total_tokens) {
    DraftsSequence sequence;
    sequence.sampling = SampledBy(3, max_total_tokens);
    ExpectEqualTexts(sequence);
  }
}

// Blocks of 16 keys, tiles of 64 keys, splits that end at 128 and 512 keys. The keys of some drafts
// lie behind the border, and those of others before it.
TEST_P(StepRunnerDraftsCudaTest, RowsCrossBordersOfBlocksTilesAndSplits) {
  for (const uint32_t border : {16u, 64u, 128u, 512u}) {
    for (uint32_t num_prompt = border - 4; num_prompt <= border + 1; ++num_prompt) {
      DraftsSequence sequence;
      sequence.prompt = testing::MakeTokens(num_prompt, kVocab, num_prompt);
      sequence.sampling = SampledBy(num_prompt, num_prompt + 12);
      ExpectEqualTexts(sequence);
      if (HasFailure()) return;
    }
  }
}

TEST_P(StepRunnerDraftsCudaTest, TheLimitMayChangeInEveryStep) {
  DraftsSequence sequence;
  sequence.sampling = SampledBy(4, 80);
  const DraftsText plain = Decode(*plain_, sequence);
  for (const uint64_t seed : {1, 2, 3}) {
    for (const auto& [name, script] : AllScripts(WholeText(sequence, plain))) {
      std::mt19937_64 random(seed);
      sequence.limit = [&random](uint32_t) {
        return static_cast<uint32_t>(random() % (kMaxDrafts + 1));
      };
      EXPECT_EQ(Difference(Decode(*scripted_, sequence, &script), plain), "") << name;
    }
  }
}

// The host plans further steps before it knows how many tokens a step kept.
TEST_P(StepRunnerDraftsCudaTest, StepsUnderWayGiveEqualTexts) {
  for (const uint32_t max_total_tokens : {13u, 14u, 15u, 16u, 60u}) {
    DraftsSequence sequence;
    sequence.sampling = SampledBy(8, max_total_tokens);
    const DraftsText plain = Decode(*plain_, sequence);
    for (const size_t depth : {size_t{2}, size_t{4}, size_t{7}}) {
      sequence.depth = depth;
      for (const auto& [name, script] : AllScripts(WholeText(sequence, plain))) {
        EXPECT_EQ(Difference(Decode(*scripted_, sequence, &script), plain), "")
            << name << ", " << depth << " steps under way";
      }
      EXPECT_EQ(Difference(Decode(*repeating_, sequence), plain), "");
    }
  }
}

TEST_P(StepRunnerDraftsCudaTest, RightDraftsSaveSteps) {
  DraftsSequence sequence;
  sequence.sampling = SampledBy(2, 30);
  const std::vector<TokenId> whole = WholeText(sequence, Decode(*plain_, sequence));
  std::map<std::string, Script> scripts = AllScripts(whole);
  DraftsWork work;
  sequence.limit = [](uint32_t) { return 3; };
  Decode(*scripted_, sequence, &scripts["right"], &work);
  EXPECT_EQ(work.num_steps, 5u) << "20 tokens, 4 a step";
  EXPECT_EQ(work.num_drafted, 15u);
  Decode(*scripted_, sequence, &scripts["always wrong"], &work);
  EXPECT_EQ(work.num_steps, 20u);
  // The last steps have less to draft.
  EXPECT_EQ(work.num_drafted, 17u * 3 + 2 + 1);
}

TEST_P(StepRunnerDraftsCudaTest, DraftsEndBeforeAnIdOutsideTheVocabulary) {
  DraftsSequence sequence;
  const DraftsText plain = Decode(*plain_, sequence);
  Script script = WholeText(sequence, plain);
  script[12] = kVocab;  // the third draft after 10 known tokens
  DraftsWork work;
  EXPECT_EQ(Difference(Decode(*scripted_, sequence, &script, &work), plain), "");
  // 3, 5, 5, 5 and 2 tokens.
  EXPECT_EQ(work.num_steps, 5u);
  EXPECT_EQ(work.num_drafted, 2u + 4 + 4 + 4 + 1);
  script[10] = 0xFFFFFFFF;
  EXPECT_EQ(Difference(Decode(*scripted_, sequence, &script, &work), plain), "");
  // 1, 2, 5, 5, 5 and 2 tokens.
  EXPECT_EQ(work.num_steps, 6u);
  EXPECT_EQ(work.num_drafted, 0u + 1 + 4 + 4 + 4 + 1);
}

// A text of one token over and over.
TEST_P(StepRunnerDraftsCudaTest, RepeatedTextIsDraftedFromWhatOccurredBefore) {
  DraftsSequence sequence;
  sequence.sampling.set_max_total_tokens(50);
  sequence.sampling.add_logit_bias_ids(7);
  sequence.sampling.add_logit_bias_values(1000.0f);
  DraftsWork work;
  const DraftsText plain = Decode(*plain_, sequence);
  EXPECT_EQ(Difference(Decode(*repeating_, sequence, nullptr, &work), plain), "");
  // Three tokens one by one until "7 7" has occurred before, then five a step.
  EXPECT_LE(work.num_steps, 12u);
  EXPECT_GE(work.num_drafted, 25u);
}

// A token that is drafted counts for the rows behind it.
TEST_P(StepRunnerDraftsCudaTest, EveryPenaltyGivesEqualTexts) {
  DraftsSequence sequence;
  sequence.sampling = SampledBy(1, 60);
  sequence.sampling.set_repetition_penalty(1.3f);
  sequence.sampling.set_presence_penalty(0.5f);
  sequence.sampling.set_frequency_penalty(0.25f);
  ExpectEqualTexts(sequence);
  sequence.sampling.set_temperature(0);
  ExpectEqualTexts(sequence);
  // Few tokens, so that they come again soon.
  for (const TokenId token : {2u, 3u, 5u}) sequence.sampling.add_allowed_token_ids(token);
  ExpectEqualTexts(sequence);
  DraftsWork work;
  const Script script = WholeText(sequence, Decode(*plain_, sequence));
  Decode(*scripted_, sequence, &script, &work);
  EXPECT_LE(work.num_steps, 13u);
}

TEST_P(StepRunnerDraftsCudaTest, WithoutASourceLimitsAreRefused) {
  EXPECT_EQ(plain_->bounds().max_draft_tokens, 0u);
  EXPECT_EQ(scripted_->bounds().max_draft_tokens, kMaxDrafts);
  plain_->BeginLease(++epoch_);
  testing::StepSequence steps(epoch_);
  v1::StepRequest step = steps.Next();
  *step.add_started() = testing::MakeStarted(0, {1, 2}, {0}, 10);
  testing::AddRow(step, 0, 2);
  plain_->Submit(step);
  TakeResult(*plain_);
  step = steps.Next();
  step.add_run_slots(0);
  step.add_draft_limits(1);
  plain_->Submit(step);
  v1::StepResult result;
  StepStats stats;
  while (!plain_->TakeResult(&result, &stats)) {
  }
  EXPECT_EQ(result.refusal().code(), static_cast<uint32_t>(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(result.refusal().message(), HasSubstr("draft_limits: this worker announced no"));
  plain_->EndLease();
}

#endif

INSTANTIATE_TEST_SUITE_P(Ranks, StepRunnerDraftsCudaTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace lockstep::worker
