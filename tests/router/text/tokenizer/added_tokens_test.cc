#include "router/text/tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace lockstep::router {
namespace {

// Ids of the tokens and texts between them, as "[id]" and the text.
std::string Show(const std::vector<AddedTokenMatcher::Segment>& segments) {
  std::string shown;
  for (const AddedTokenMatcher::Segment& segment : segments) {
    shown += segment.id ? "[" + std::to_string(*segment.id) + "]" : std::string(segment.text) + "|";
  }
  return shown;
}

// The leftmost token, of those the longest, again and again.
std::string SplitPlainly(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::string shown;
  std::string between;
  const auto end_text = [&] {
    if (!between.empty()) shown += between + "|";
    between.clear();
  };
  while (!text.empty()) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : tokens) {
      if (!text.starts_with(token.content)) continue;
      if (longest == nullptr || token.content.size() > longest->content.size()) longest = &token;
    }
    if (longest == nullptr) {
      between += text[0];
      text.remove_prefix(1);
      continue;
    }
    end_text();
    shown += "[" + std::to_string(longest->id) + "]";
    text.remove_prefix(longest->content.size());
  }
  end_text();
  return shown;
}

TEST(AddedTokenMatcherTest, FindsTheLeftmostAndOfThoseTheLongest) {
  std::mt19937 rng(9);
  const auto word = [&rng](size_t max_size) {
    std::string text;
    const size_t size = 1 + rng() % max_size;
    while (text.size() < size) text += static_cast<char>('a' + rng() % 3);
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<AddedToken> tokens;
    const size_t num_tokens = 1 + rng() % 8;
    for (TokenId id = 0; id < num_tokens; ++id) {
      const std::string content = word(7);
      if (std::none_of(tokens.begin(), tokens.end(),
                       [&](const AddedToken& token) { return token.content == content; })) {
        tokens.push_back({.id = id, .content = content});
      }
    }
    const AddedTokenMatcher matcher(tokens);
    for (int i = 0; i < 50; ++i) {
      const std::string text = word(40);
      ASSERT_EQ(Show(matcher.Split(text, true)), SplitPlainly(tokens, text)) << text;
    }
  }
}

}  // namespace
}  // namespace lockstep::router
