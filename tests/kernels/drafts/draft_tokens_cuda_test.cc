#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/drafts/draft_tokens.h"
#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {
namespace {

using ::lockstep::testing::DeviceArray;
using Tokens = std::vector<TokenId>;

constexpr int64_t kMaxContext = 4096;
constexpr uint32_t kMaxDrafts = 6;
constexpr TokenId kVocab = 1000;
constexpr TokenId kUnwritten = 0xEEEE;

struct Sequence {
  Tokens known;
  uint32_t max_total_tokens = kMaxContext;
  uint32_t num_rows = kMaxDrafts;  // of drafts
  bool active = true;
  Tokens script = {};
};

// The definition, one place after the other.
Tokens ExpectedRepeat(const Tokens& known, uint32_t limit) {
  const size_t last = known.size() - 1;
  size_t best_size = 0, best_end = 0;
  for (size_t end = 0; end < last; ++end) {
    size_t size = 0;
    while (size < kMaxRepeatedTokens && size <= end && known[end - size] == known[last - size]) {
      ++size;
    }
    if (size >= kMinRepeatedTokens && size >= best_size) {
      best_size = size;
      best_end = end;
    }
  }
  Tokens extended = known;
  Tokens drafts;
  for (size_t i = 0; best_size > 0 && i < limit; ++i) {
    extended.push_back(extended[best_end + 1 + i]);
    drafts.push_back(extended.back());
  }
  return drafts;
}

class DraftTokensCudaTest : public testing::CudaTest {
 protected:
  // The drafts of each sequence. Sequence i has slot `n - 1 - i`, and padding is before the rows.
  std::vector<Tokens> Draft(const std::vector<Sequence>& sequences, bool by_script) {
    const size_t num_slots = sequences.size();
    std::vector<uint32_t> slots(2, kNoSlot), numbers(2, 0), positions(num_slots), active(num_slots);
    std::vector<DeviceSampleParams> params(num_slots);
    Tokens known(num_slots * kMaxContext, 5), scripts(num_slots * kMaxContext, 6);
    for (size_t i = 0; i < num_slots; ++i) {
      const Sequence& sequence = sequences[i];
      const size_t slot = num_slots - 1 - i;
      for (uint32_t number = 0; number <= sequence.num_rows; ++number) {
        slots.push_back(static_cast<uint32_t>(slot));
        numbers.push_back(number);
      }
      positions[slot] = static_cast<uint32_t>(sequence.known.size() - 1);
      active[slot] = sequence.active ? 1 : 0;
      params[slot].max_total_tokens = sequence.max_total_tokens;
      std::ranges::copy(sequence.known, known.begin() + static_cast<ptrdiff_t>(slot * kMaxContext));
      std::ranges::copy(sequence.script,
                        scripts.begin() + static_cast<ptrdiff_t>(slot * kMaxContext));
    }
    const DeviceArray<uint32_t> device_slots(slots), device_numbers(numbers),
        device_positions(positions), device_active(active), num_drafts(num_slots);
    const DeviceArray<DeviceSampleParams> device_params(params);
    const DeviceArray<TokenId> device_known(known), device_scripts(scripts);
    const DeviceArray<TokenId> drafts(Tokens(num_slots * kMaxDrafts, kUnwritten));
    const DeviceArray<uint64_t> begin_ns(1);
    EXPECT_THAT(DraftTokens(stream_, {.row_slots = device_slots.data(),
                                      .rows = {.numbers = device_numbers.data(),
                                               .table = {.tokens = drafts.data(),
                                                         .num_drafts = num_drafts.data(),
                                                         .max_drafts = kMaxDrafts}},
                                      .num_rows = static_cast<int64_t>(slots.size()),
                                      .vocab_size = kVocab,
                                      .state = {.position = device_positions.data(),
                                                .active = device_active.data(),
                                                .num_slots = static_cast<int64_t>(num_slots)},
                                      .params = device_params.data(),
                                      .known_tokens = device_known.data(),
                                      .script = by_script ? device_scripts.data() : nullptr,
                                      .max_context_tokens = kMaxContext,
                                      .begin_ns = begin_ns.data()}),
                IsOk());
    Synchronize();
    EXPECT_NE(begin_ns.Read()[0], UINT64_MAX);
    drafts.ExpectGuardsIntact();
    num_drafts.ExpectGuardsIntact();
    const Tokens tokens = drafts.Read();
    const std::vector<uint32_t> counts = num_drafts.Read();
    std::vector<Tokens> results;
    for (size_t i = 0; i < num_slots; ++i) {
      const size_t slot = num_slots - 1 - i;
      EXPECT_LE(counts[slot], kMaxDrafts);
      const auto first = tokens.begin() + static_cast<ptrdiff_t>(slot * kMaxDrafts);
      const auto end = first + std::min(counts[slot], kMaxDrafts);
      results.emplace_back(first, end);
      EXPECT_TRUE(
          std::all_of(end, first + kMaxDrafts, [](TokenId token) { return token == kUnwritten; }));
    }
    return results;
  }
};

TEST_F(DraftTokensCudaTest, TheLongestSuffixThatOccurredBeforeIsFollowed) {
  const std::vector<Tokens> drafts = Draft(
      {
          {.known = {1, 2, 3, 9, 9, 2, 3, 7, 8, 1, 2, 3}},      // "1 2 3" beats the later "2 3"
          {.known = {2, 3, 4, 2, 3, 5, 6, 7, 8, 9, 10, 2, 3}},  // the later of two
          {.known = {1, 2, 3, 4, 5}},                           // no token came twice
          {.known = {3, 1, 2, 3}},                              // one token is too short a suffix
          {.known = {7}},
          {.known = {7, 7}},
          {.known = {7, 7, 7}},
          {.known = {8, 1, 2, 1, 2, 1, 2}, .num_rows = 5},  // goes on repeating
      },
      /*by_script=*/false);
  EXPECT_EQ(drafts[0], (Tokens{9, 9, 2, 3, 7, 8}));
  EXPECT_EQ(drafts[1], (Tokens{5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(drafts[2], Tokens());
  EXPECT_EQ(drafts[3], Tokens());
  EXPECT_EQ(drafts[4], Tokens());
  EXPECT_EQ(drafts[5], Tokens());
  EXPECT_EQ(drafts[6], (Tokens{7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(drafts[7], (Tokens{1, 2, 1, 2, 1}));
}

TEST_F(DraftTokensCudaTest, AnyTextGivesTheDefinition) {
  std::mt19937 random(3);
  std::vector<Sequence> sequences;
  for (const uint32_t num_words : {2, 3, 10, 50}) {
    for (const size_t length : {2, 9, 31, 100, 511, 512, 513, 1000, 2047, 2049, 4000}) {
      Sequence sequence;
      for (size_t i = 0; i < length; ++i) sequence.known.push_back(random() % num_words);
      sequences.push_back(std::move(sequence));
    }
  }
  const std::vector<Tokens> drafts = Draft(sequences, /*by_script=*/false);
  size_t num_drafted = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_EQ(drafts[i], ExpectedRepeat(sequences[i].known, kMaxDrafts))
        << sequences[i].known.size() << " tokens, sequence " << i;
    num_drafted += drafts[i].size();
  }
  EXPECT_GT(num_drafted, 150u);
}

TEST_F(DraftTokensCudaTest, RowsTheEndOfTheTextAndInactiveSlotsBoundTheDrafts) {
  const Tokens known = {1, 2, 3, 4, 1, 2};
  const std::vector<Tokens> drafts =
      Draft({{.known = known, .num_rows = 2},
             {.known = known, .num_rows = 0},
             {.known = known, .max_total_tokens = 10},  // the token at place 9 is only sampled
             {.known = known, .max_total_tokens = 7},
             {.known = known, .active = false}},
            /*by_script=*/false);
  EXPECT_EQ(drafts[0], (Tokens{3, 4}));
  EXPECT_EQ(drafts[1], Tokens());
  EXPECT_EQ(drafts[2], (Tokens{3, 4, 1}));
  EXPECT_EQ(drafts[3], Tokens());
  EXPECT_EQ(drafts[4], Tokens());
}

TEST_F(DraftTokensCudaTest, AScriptHasADraftForEveryPosition) {
  const Tokens script = {0, 1, 2, 3, 4, 5, kVocab - 1, kVocab, 8, 9, 0xFFFFFFFF, 11, 12, 13, 14};
  const std::vector<Tokens> drafts =
      Draft({{.known = {9, 9, 9}, .script = script},
             {.known = Tokens(7, 1), .script = script},
             {.known = Tokens(8, 1), .script = script},
             {.known = Tokens(11, 1), .num_rows = 3, .script = script}},
            /*by_script=*/true);
  EXPECT_EQ(drafts[0], (Tokens{3, 4, 5, kVocab - 1}));  // up to an id that is no token
  EXPECT_EQ(drafts[1], Tokens());
  EXPECT_EQ(drafts[2], (Tokens{8, 9}));
  EXPECT_EQ(drafts[3], (Tokens{11, 12, 13}));
}

TEST_F(DraftTokensCudaTest, WithoutRowsOfDraftsOrASourceItIsAnError) {
  EXPECT_EQ(DraftTokens(stream_, {.num_rows = 1}).code(), absl::StatusCode::kInvalidArgument);
  const DeviceArray<uint32_t> numbers(1);
  EXPECT_EQ(DraftTokens(stream_, {.rows = {.numbers = numbers.data()}, .num_rows = 1}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::kernels
