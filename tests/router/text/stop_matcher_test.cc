#include "router/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep::router {
namespace {

struct Expected {
  std::string text;
  std::optional<size_t> matched;
};

// The definition, by trying every end and every start. No match ends in the first bytes.
Expected Naively(const std::vector<std::string>& stops, const std::string& text, bool include_stop,
                 size_t num_first_bytes) {
  for (size_t end = num_first_bytes == 0 ? 0 : num_first_bytes + 1; end <= text.size(); ++end) {
    for (size_t begin = 0; begin <= end; ++begin) {
      for (size_t i = 0; i < stops.size(); ++i) {
        if (text.substr(begin, end - begin) == stops[i]) {
          return {text.substr(0, include_stop ? end : begin), i};
        }
      }
    }
  }
  return {text, std::nullopt};
}

// The longest end of `text` that begins a stop string: the most that may be held back.
size_t LongestBeginning(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t length = text.size(); length > 0; --length) {
    for (const std::string& stop : stops) {
      if (length < stop.size() && stop.starts_with(text.substr(text.size() - length)))
        return length;
    }
  }
  return 0;
}

TEST(StopMatcherTest, MatchesAcrossPieces) {
  StopMatcher matcher({"</s>", "STOP"}, /*include_stop=*/false);
  EXPECT_EQ(matcher.Push("hello <").text, "hello ");
  EXPECT_EQ(matcher.Push("/").text, "");
  EXPECT_EQ(matcher.Push("x").text, "</x");
  const StopMatcher::Output output = matcher.Push("y STOP and more");
  EXPECT_EQ(output.text, "y ");
  EXPECT_EQ(output.matched, 1u);
  EXPECT_EQ(matcher.stop_string(1), "STOP");
  EXPECT_EQ(matcher.Push("later").text, "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, ShowsTheStopStringWhenAsked) {
  StopMatcher matcher({"END"}, /*include_stop=*/true);
  EXPECT_EQ(matcher.Push("the E").text, "the ");
  EXPECT_EQ(matcher.Push("NDING").text, "END");
}

TEST(StopMatcherTest, GivesBackWhatWasHeldAtTheEnd) {
  StopMatcher matcher({"abcd"}, /*include_stop=*/false);
  EXPECT_EQ(matcher.Push("xabc").text, "x");
  EXPECT_EQ(matcher.Flush(), "abc");
  EXPECT_EQ(matcher.Push("d").text, "d");  // what came before the end is gone
}

TEST(StopMatcherTest, WithoutStopStringsNothingIsHeld) {
  StopMatcher matcher({}, /*include_stop=*/false);
  EXPECT_EQ(matcher.Push("anything").text, "anything");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, AmongEqualEndsTheEarliestStartThenTheLowestIndex) {
  StopMatcher longest({"c", "bc", "abc", "abc"}, /*include_stop=*/false);
  const StopMatcher::Output output = longest.Push("xabc");
  EXPECT_EQ(output.matched, 2u);
  EXPECT_EQ(output.text, "x");
}

TEST(StopMatcherTest, AnEmptyStopStringEndsTheTextAtOnce) {
  StopMatcher matcher({"x", ""}, /*include_stop=*/true);
  const StopMatcher::Output output = matcher.Push("abc");
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.matched, 1u);
}

TEST(StopMatcherTest, EqualsTheNaiveSearchOnRandomTexts) {
  std::mt19937 rng(23);
  const auto random_text = [&rng](size_t max_length) {
    std::string text(rng() % (max_length + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + rng() % 2);
    return text;
  };
  size_t num_matched = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::vector<std::string> stops(rng() % 4);
    for (std::string& stop : stops) stop = random_text(5) + "b";
    const bool include_stop = rng() % 2 == 0;
    const std::string text = random_text(20);
    const size_t num_first_bytes = rng() % 2 == 0 ? 0 : rng() % (text.size() + 1);
    const Expected expected = Naively(stops, text, include_stop, num_first_bytes);
    StopMatcher matcher(stops, include_stop);
    std::string shown;
    std::optional<size_t> matched;
    for (size_t begin = 0; begin < text.size() && !matched;) {
      const bool is_first = begin < num_first_bytes;
      const size_t limit = is_first ? num_first_bytes : text.size();
      const size_t length = std::min<size_t>(rng() % 4, limit - begin);
      StopMatcher::Output output =
          matcher.Push(std::string_view(text).substr(begin, length), /*may_match=*/!is_first);
      begin += length;
      shown += output.text;
      matched = output.matched;
      if (!matched && num_first_bytes == 0) {
        const std::string seen = text.substr(0, begin);
        ASSERT_EQ(shown.size(), begin - LongestBeginning(stops, seen))
            << "holds too much or too little";
      }
    }
    shown += matcher.Flush();
    num_matched += matched.has_value();
    ASSERT_EQ(matched, expected.matched) << text;
    ASSERT_EQ(shown, expected.text) << text;
  }
  EXPECT_GT(num_matched, 5'000u);
}

}  // namespace
}  // namespace lockstep::router
