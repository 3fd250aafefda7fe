#include "worker/drafters/suffix_automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace lockstep::worker {
namespace {

using Repeat = SuffixAutomaton::Repeat;

std::vector<TokenId> RandomText(std::mt19937_64& random, size_t num_tokens, uint32_t num_words) {
  std::vector<TokenId> text;
  for (size_t i = 0; i < num_tokens; ++i) {
    text.push_back(static_cast<TokenId>(random() % num_words));
  }
  return text;
}

// Random words, and copies of earlier parts.
std::vector<TokenId> CopyingText(std::mt19937_64& random, size_t num_tokens, uint32_t num_words) {
  std::vector<TokenId> text = RandomText(random, 4, num_words);
  while (text.size() < num_tokens) {
    if (random() % 3 == 0) {
      text.push_back(static_cast<TokenId>(random() % num_words));
      continue;
    }
    const size_t from = random() % text.size();
    for (size_t i = from, n = random() % 12; i < text.size() && n > 0; ++i, --n) {
      text.push_back(text[i]);
    }
  }
  text.resize(num_tokens);
  return text;
}

// Tries every length and every place.
Repeat SlowRepeat(const std::vector<TokenId>& text, size_t size) {
  for (size_t length = size - 1; length > 0; --length) {
    const auto suffix = text.begin() + static_cast<ptrdiff_t>(size - length);
    for (size_t end = length; end < size; ++end) {
      const auto candidate = text.begin() + static_cast<ptrdiff_t>(end - length);
      if (std::equal(suffix, suffix + static_cast<ptrdiff_t>(length), candidate)) {
        return {static_cast<uint32_t>(length), static_cast<uint32_t>(end)};
      }
    }
  }
  return {};
}

void ExpectLongestRepeats(const std::vector<TokenId>& text) {
  SuffixAutomaton automaton;
  for (size_t size = 1; size <= text.size(); ++size) {
    automaton.Append(text[size - 1]);
    ASSERT_EQ(automaton.size(), size);
    const Repeat expected = SlowRepeat(text, size);
    const Repeat found = automaton.LongestRepeat();
    ASSERT_EQ(found.length, expected.length) << "after " << size << " tokens";
    ASSERT_EQ(found.end, expected.end) << "after " << size << " tokens";
  }
}

TEST(SuffixAutomatonTest, FindsTheLongestRepeatOfKnownTexts) {
  struct Case {
    std::vector<TokenId> text;
    Repeat repeat;
  };
  const Case cases[] = {
      {{}, {0, 0}},
      {{7}, {0, 0}},
      {{7, 8}, {0, 0}},
      {{7, 7}, {1, 1}},
      {{7, 7, 7, 7}, {3, 3}},
      {{1, 2, 3, 1}, {1, 1}},
      {{1, 2, 3, 1, 2}, {2, 2}},
      {{1, 2, 3, 1, 2, 4}, {0, 0}},
      {{1, 2, 1, 2, 1, 2}, {4, 4}},
      {{5, 1, 2, 6, 1, 2, 7, 1, 2}, {2, 3}},     // the first place
      {{0xffffffff, 0, 0xffffffff, 0}, {2, 2}},  // any id
      {{1, 2, 3, 9, 2, 3, 8, 1, 2, 3}, {3, 3}},  // the longest, not the latest
      {{9, 2, 3, 1, 2, 3, 5, 1, 2, 3, 6, 2, 3}, {2, 3}},
  };
  for (const Case& test : cases) {
    SuffixAutomaton automaton;
    for (const TokenId token : test.text) automaton.Append(token);
    EXPECT_EQ(automaton.LongestRepeat().length, test.repeat.length);
    EXPECT_EQ(automaton.LongestRepeat().end, test.repeat.end);
  }
}

TEST(SuffixAutomatonTest, EqualsASlowSearch) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    for (const uint32_t num_words : {2u, 3u, 10u}) {
      ASSERT_NO_FATAL_FAILURE(ExpectLongestRepeats(RandomText(random, 80, num_words)));
      ASSERT_NO_FATAL_FAILURE(ExpectLongestRepeats(CopyingText(random, 120, 4 * num_words)));
    }
  }
}

TEST(SuffixAutomatonTest, MemoryIsLinear) {
  constexpr size_t kNumTokens = 50'000;
  std::mt19937_64 random(5);
  std::vector<std::vector<TokenId>> texts = {
      std::vector<TokenId>(kNumTokens, 3), RandomText(random, kNumTokens, 2),
      RandomText(random, kNumTokens, 1000), CopyingText(random, kNumTokens, 50)};
  // "abbb...bc": the most states. "a...ab...bc": every token splits a state.
  texts.emplace_back(kNumTokens, 2);
  texts.back().front() = 1;
  texts.emplace_back(kNumTokens, 1);
  std::fill(texts.back().begin() + kNumTokens / 2, texts.back().end(), 2);
  texts.back().back() = 3;
  for (const std::vector<TokenId>& text : texts) {
    SuffixAutomaton automaton;
    for (const TokenId token : text) automaton.Append(token);
    EXPECT_LE(automaton.num_states(), 2 * kNumTokens);
    EXPECT_LE(automaton.num_edges(), 3 * kNumTokens);
  }
}

TEST(SuffixAutomatonTest, ForgetsItsText) {
  SuffixAutomaton automaton;
  for (const TokenId token : {1u, 2u, 1u, 2u}) automaton.Append(token);
  automaton.Clear();
  EXPECT_EQ(automaton.size(), 0u);
  EXPECT_EQ(automaton.num_states(), 1u);
  EXPECT_EQ(automaton.num_edges(), 0u);
  automaton.Append(1);
  EXPECT_EQ(automaton.LongestRepeat().length, 0u);
  automaton.Append(1);
  EXPECT_EQ(automaton.LongestRepeat().length, 1u);
}

}  // namespace
}  // namespace lockstep::worker
