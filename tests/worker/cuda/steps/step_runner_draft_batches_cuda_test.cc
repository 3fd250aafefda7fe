// Several sequences with drafts in one batch on a GPU: each has the text that it has alone and
// without drafts. Blocks grow, prompts come in between, and steps are planned before the results of
// others are known, as a router does it.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "tests/worker/cuda/steps/drafts_cuda_fixture.h"

namespace lockstep::worker {
namespace {

constexpr uint32_t kNumSequences = 6;
constexpr uint32_t kBlocksOfSlot = 40;

// A sequence in its slot, as a router sees it.
struct Stream {
  SlotId slot = 0;
  DraftsSequence sequence;
  DraftsText alone;
  Script script;
  uint32_t first_step = 0;

  uint32_t num_blocks = 0;   // given to the worker
  uint32_t min_known = 0;    // tokens, with one for each row under way
  uint32_t max_unknown = 0;  // drafts under way
  std::vector<TokenId> tokens = {};
  bool ended = false;

  uint32_t max_total() const { return sequence.sampling.max_total_tokens(); }
  // For a row that computes the token behind `max_known` tokens and drafts.
  uint32_t BlocksFor(uint32_t num_drafts) const {
    const uint32_t end = std::min(min_known + max_unknown + num_drafts, max_total() - 1);
    return (end + 15) / 16;
  }
};

// A step under way.
struct SentStep {
  std::vector<std::pair<size_t, uint32_t>> rows;  // stream, limit of drafts
};

class DraftBatchesCudaTest : public DraftsCudaTest {
 protected:
  std::vector<Stream> MakeStreams(uint64_t seed) {
    std::vector<Stream> streams;
    std::mt19937_64 random(seed);
    for (uint32_t i = 0; i < kNumSequences; ++i) {
      Stream& stream = streams.emplace_back();
      stream.slot = 2 * i + 1;
      stream.first_step = 3 * i;
      const auto num_prompt = static_cast<uint32_t>(i == 0 ? 500 : 10 + random() % 60);
      // Every other sequence shares the beginning of its prompt with the one before.
      stream.sequence.prompt = testing::MakeTokens(num_prompt, kDraftsVocabSize, i / 2);
      v1::SlotSampling& sampling = stream.sequence.sampling;
      sampling = testing::GreedySampling(num_prompt + 20 + static_cast<uint32_t>(random() % 40));
      sampling.set_temperature(i == 1 ? 0.0f : 1.0f);
      sampling.set_seed(random());
      if (i == 3) sampling.set_presence_penalty(0.5f);
      if (i == 4) sampling.add_stop_token_ids(5);
      if (i == 5) sampling.set_num_logprobs(2);
      stream.alone = Decode(*plain_, stream.sequence);
      stream.script = WholeText(stream.sequence, stream.alone);
      // Mostly right, so that rows keep all kinds of numbers of tokens.
      for (TokenId& draft : stream.script) {
        if (random() % 5 == 0) draft = static_cast<TokenId>(random() % (kDraftsVocabSize + 1));
      }
    }
    return streams;
  }

  static void Start(Stream& stream, v1::StepRequest& step) {
    stream.num_blocks = (static_cast<uint32_t>(stream.sequence.prompt.size()) + 15) / 16;
    v1::StartedSlot& started = *step.add_started();
    started = testing::MakeStarted(
        stream.slot, stream.sequence.prompt,
        testing::BlockRange(stream.slot / 2 * kBlocksOfSlot, stream.num_blocks),
        stream.max_total());
    *started.mutable_sampling() = stream.sequence.sampling;
    stream.min_known = static_cast<uint32_t>(stream.sequence.prompt.size());
  }

  static void Grow(Stream& stream, uint32_t num_blocks, v1::StepRequest& step) {
    if (num_blocks <= stream.num_blocks) return;
    step.add_grown_slots(stream.slot);
    step.add_grown_counts(num_blocks - stream.num_blocks);
    for (; stream.num_blocks < num_blocks; ++stream.num_blocks) {
      step.add_grown_blocks(stream.slot / 2 * kBlocksOfSlot + stream.num_blocks);
    }
  }

  // Plans a step: a row for each sequence that runs and is not sure to have ended.
  SentStep Plan(std::vector<Stream>& streams, uint32_t number, std::mt19937_64& random,
                v1::StepRequest& step) {
    SentStep sent;
    for (size_t i = 0; i < streams.size(); ++i) {
      Stream& stream = streams[i];
      if (number < stream.first_step || stream.ended) continue;
      if (number == stream.first_step) {
        Start(stream, step);
        testing::AddRow(step, stream.slot, static_cast<uint32_t>(stream.sequence.prompt.size()));
        step.add_draft_limits(0);
        sent.rows.emplace_back(i, 0);
      } else if (stream.min_known < stream.max_total()) {
        const auto limit = static_cast<uint32_t>(random() % (kMaxDrafts + 1));
        Grow(stream, stream.BlocksFor(limit), step);
        testing::AddRow(step, stream.slot, 1);
        step.add_draft_limits(limit);
        sent.rows.emplace_back(i, limit);
        stream.max_unknown += limit;
      } else {
        continue;
      }
      ++stream.min_known;
    }
    return sent;
  }

  static void Take(const v1::StepResult& result, const SentStep& sent, std::vector<Stream>& streams,
                   uint32_t& num_drafted) {
    for (const uint32_t count : result.drafted_counts()) num_drafted += count;
    for (const auto& [i, limit] : sent.rows) streams[i].max_unknown -= limit;
    int next = 0;
    for (int entry = 0; entry < result.sampled_slots_size(); ++entry) {
      const auto stream = std::ranges::find(streams, result.sampled_slots(entry), &Stream::slot);
      ASSERT_NE(stream, streams.end());
      const int count =
          result.sampled_counts_size() == 0 ? 1 : static_cast<int>(result.sampled_counts(entry));
      for (int i = 0; i < count; ++i) stream->tokens.push_back(result.token_ids(next++));
      stream->min_known += static_cast<uint32_t>(count - 1);
    }
    for (const SlotId slot : result.stopped_slots()) {
      std::ranges::find(streams, slot, &Stream::slot)->ended = true;
    }
  }

  void ExpectEveryTextIsThatOfItsSequenceAlone(CudaStepRunner& runner, size_t depth,
                                               uint64_t seed) {
    std::vector<Stream> streams = MakeStreams(seed);
    std::mt19937_64 random(seed);
    runner.BeginLease(++epoch_);
    if (&runner == scripted_.get()) {
      for (const Stream& stream : streams) runner.SetDraftScript(stream.slot, stream.script);
    }
    testing::StepSequence steps(epoch_);
    std::deque<SentStep> sent;
    uint32_t num_drafted = 0;
    const auto all_ended = [&] { return std::ranges::all_of(streams, &Stream::ended); };
    for (uint32_t number = 0; number < 1000 && !(all_ended() && sent.empty());) {
      if (!all_ended() && sent.size() < depth) {
        v1::StepRequest step = steps.Next();
        sent.push_back(Plan(streams, number++, random, step));
        runner.Submit(step);
        continue;
      }
      Take(TakeResult(runner), sent.front(), streams, num_drafted);
      sent.pop_front();
    }
    runner.EndLease();
    for (const Stream& stream : streams) {
      EXPECT_EQ(stream.tokens, stream.alone.tokens) << "slot " << stream.slot;
    }
    EXPECT_GT(num_drafted, 50u);
  }
};

TEST_P(DraftBatchesCudaTest, ByAScript) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const size_t depth : {size_t{1}, size_t{2}, size_t{4}}) {
      SCOPED_TRACE(fmt::format("seed {}, {} steps under way", seed, depth));
      ExpectEveryTextIsThatOfItsSequenceAlone(*scripted_, depth, seed);
      if (HasFailure()) return;
    }
  }
}

TEST_P(DraftBatchesCudaTest, ByWhatOccurredBefore) {
  for (const size_t depth : {size_t{1}, size_t{3}}) {
    SCOPED_TRACE(fmt::format("{} steps under way", depth));
    ExpectEveryTextIsThatOfItsSequenceAlone(*repeating_, depth, /*seed=*/4);
  }
}

// 32 rows are all that a graph takes here: 11 sequences with 4 drafts each do not fit.
TEST_P(DraftBatchesCudaTest, RowsBeyondTheLargestGraphAreNotDrafted) {
  constexpr uint32_t kMany = 11;
  DraftsSequence sequence;
  sequence.sampling.set_temperature(1);
  const DraftsText alone = Decode(*plain_, sequence);
  const Script script = WholeText(sequence, alone);
  scripted_->BeginLease(++epoch_);
  testing::StepSequence steps(epoch_);
  v1::StepRequest step = steps.Next();
  for (SlotId slot = 0; slot < kMany; ++slot) {
    scripted_->SetDraftScript(slot, script);
    v1::StartedSlot& started = *step.add_started();
    started = testing::MakeStarted(slot, sequence.prompt, testing::BlockRange(2 * slot, 2), 30);
    *started.mutable_sampling() = sequence.sampling;
    testing::AddRow(step, slot, static_cast<uint32_t>(sequence.prompt.size()));
  }
  scripted_->Submit(step);
  TakeResult(*scripted_);
  step = steps.Next();
  for (SlotId slot = 0; slot < kMany; ++slot) {
    step.add_run_slots(slot);
    step.add_draft_limits(kMaxDrafts);
  }
  scripted_->Submit(step);
  const v1::StepResult result = TakeResult(*scripted_);
  scripted_->EndLease();
  ASSERT_EQ(result.drafted_counts_size(), static_cast<int>(kMany));
  uint32_t num_drafted = 0;
  for (const uint32_t count : result.drafted_counts()) num_drafted += count;
  EXPECT_EQ(num_drafted, kNumSlots - kMany);
  EXPECT_EQ(result.token_ids_size(), static_cast<int>(kNumSlots));
  EXPECT_EQ(result.sampled_counts(0), kMaxDrafts + 1);
  EXPECT_EQ(result.sampled_counts(kMany - 1), 1u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(result.token_ids(i), script[10 + static_cast<size_t>(i)]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DraftBatchesCudaTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace lockstep::worker
