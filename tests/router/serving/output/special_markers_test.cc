// Markers that are special tokens, which clients do not see and stop strings do not match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/router/serving/output/tool_output_fixture.h"
#include "tests/router/text/tiny_tokenizer.h"

namespace lockstep::router {
namespace {

using ::testing::MatchesRegex;
using ::testing::SizeIs;

// Markers of Mistral are special tokens.
class SpecialMarkersTest : public ToolOutputTest {
 protected:
  SpecialMarkersTest() {
    nlohmann::json definition = TinyTokenizerJson();
    TokenId id = 263;
    for (const char* const content : {"[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", "[X]"}) {
      definition["added_tokens"].push_back({{"id", id++},
                                            {"content", content},
                                            {"single_word", false},
                                            {"lstrip", false},
                                            {"rstrip", false},
                                            {"normalized", false},
                                            {"special", true}});
    }
    special_ = *LoadTiny(definition);
    request_->sampling.stop_token_ids = {};
    Read("mistral", {.parse_calls = true, .split_reasoning = true});
  }

  std::vector<TokenId> Tokens(const std::string& text) const {
    return *special_->Encode(text, {.add_special_tokens = false, .parse_special_tokens = true});
  }
  Said SayTokens(const std::string& text, const std::vector<size_t>& sizes = {1}) {
    return Say(Tokens(text), sizes, FinishReason::kStop, *special_);
  }

  std::unique_ptr<const Tokenizer> special_;
};

TEST_F(SpecialMarkersTest, AreFoundThoughTheClientDoesNotSeeThem) {
  const Said said = SayTokens("[THINK]hm[/THINK]So[X]:[TOOL_CALLS]f[ARGS]{\"x\": 1}");
  EXPECT_EQ(said.reasoning, "hm");
  EXPECT_EQ(said.text, "So:");
  ASSERT_THAT(said.calls, SizeIs(1));
  EXPECT_EQ(said.calls[0].name, "f");
  EXPECT_EQ(said.calls[0].arguments, "{\"x\": 1}");
  EXPECT_THAT(said.calls[0].id, MatchesRegex("[0-9A-Za-z]+"));
  EXPECT_THAT(said.calls[0].id, SizeIs(9));
}

TEST_F(SpecialMarkersTest, OthersAreShownOnRequest) {
  options_.skip_special_tokens = false;
  Read("mistral", {.parse_calls = true, .split_reasoning = true, .keep_special_tokens = true});
  const Said said = SayTokens("So[X]: hello[TOOL_CALLS]f[ARGS]{}");
  EXPECT_EQ(said.text, "So[X]: hello");
  EXPECT_THAT(said.calls, SizeIs(1));
}

TEST_F(SpecialMarkersTest, StopStringsDoNotSeeWhatTheClientDoesNotSee) {
  options_.stop_strings = {"o:", "[TOOL"};
  // "So:" for the client.
  const Said said = SayTokens("S[X]o[X]: and more");
  EXPECT_EQ(said.text, "S");
  EXPECT_EQ(said.finish.stop_string(), "o:");
  // The text before a marker waits, because it may begin a stop string, and comes before the call.
  const Said held = SayTokens("hello[TOOL_CALLS]f[ARGS]{}");
  EXPECT_EQ(held.text, "hello");
  EXPECT_THAT(held.calls, SizeIs(1));
}

TEST_F(SpecialMarkersTest, AStopStringMayCutASpellingThatIsShown) {
  options_.skip_special_tokens = false;
  Read("mistral", {.parse_calls = true, .keep_special_tokens = true});
  options_.stop_strings = {"X]:"};
  const Said said = SayTokens("So[X]: hello");
  EXPECT_EQ(said.text, "So[");
  EXPECT_EQ(said.finish.stop_string(), "X]:");
  // It waits until it is known not to be cut.
  options_.stop_strings = {"ARGS]{}!"};
  const Said whole = SayTokens("[TOOL_CALLS]f[ARGS]{}");
  EXPECT_EQ(whole.text, "");
  ASSERT_THAT(whole.calls, SizeIs(1));
  EXPECT_EQ(whole.calls[0].arguments, "{}");
}

TEST_F(SpecialMarkersTest, HowTokensCameTogetherChangesNothing) {
  options_.stop_strings = {"never", "hel]"};
  const std::string text = "[THINK]h hel[/THINK]hello[X] hel[TOOL_CALLS]f[ARGS]{\"x\": \"hel\"}";
  const Said whole = SayTokens(text, {1000});
  ASSERT_THAT(whole.calls, SizeIs(1));
  for (size_t first = 1; first < 8; ++first) {
    for (size_t second = 1; second < 8; ++second) {
      const Said said = SayTokens(text, {first, second});
      EXPECT_EQ(said.reasoning, whole.reasoning);
      EXPECT_EQ(said.text, whole.text);
      EXPECT_EQ(said.calls, whole.calls);
    }
  }
}

}  // namespace
}  // namespace lockstep::router
