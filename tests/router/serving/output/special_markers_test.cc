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

namespace v1 = lockstep::v1;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr TokenId kFirstAdded = 263;

// Markers of Mistral are special tokens.
class SpecialMarkersTest : public ToolOutputTest {
 protected:
  SpecialMarkersTest() {
    Load({"[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", "[X]"});
    request_->sampling.stop_token_ids = {};
    Read("mistral", {.parse_calls = true, .split_reasoning = true});
  }

  // A tokenizer with these tokens, from kFirstAdded on.
  void Load(const std::vector<std::string>& added, bool special = true) {
    nlohmann::json definition = TinyTokenizerJson();
    TokenId id = kFirstAdded;
    for (const std::string& content : added) {
      definition["added_tokens"].push_back({{"id", id++},
                                            {"content", content},
                                            {"single_word", false},
                                            {"lstrip", false},
                                            {"rstrip", false},
                                            {"normalized", false},
                                            {"special", special}});
    }
    special_ = *LoadTiny(definition);
  }

  std::vector<TokenId> Tokens(const std::string& text) const {
    return *special_->Encode(text, {.add_special_tokens = false, .parse_special_tokens = true});
  }
  Said SayTokens(const std::string& text, const std::vector<size_t>& sizes = {1}) {
    return Say(Tokens(text), sizes, FinishReason::kStop, *special_);
  }

  std::vector<v1::TokenPart> Parts() const {
    std::vector<v1::TokenPart> parts;
    for (const v1::TokenLogprob& entry : Logprobs()) parts.push_back(entry.part());
    return parts;
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

TEST_F(SpecialMarkersTest, ATokenThatBeginsTheTextIsText) {
  Load({"</think>So"}, /*special=*/false);
  Read("hermes", {.split_reasoning = true, .begins_in_reasoning = true});
  request_->sampling.num_logprobs = 0;
  Start(*special_);
  ASSERT_EQ(Tokens("a</think>So").back(), kFirstAdded);
  ConsumeSample(WithLogprobs(Tokens("a</think>So")));
  End(FinishReason::kStop);
  EXPECT_EQ(What().reasoning, "a");
  EXPECT_EQ(What().text, "So");
  EXPECT_THAT(Parts(), ElementsAre(v1::TOKEN_PART_OTHER, v1::TOKEN_PART_TEXT));
}

// A marker may be a token that ends the output. gpt-oss ends its calls so.
class HarmonyEndTest : public SpecialMarkersTest {
 protected:
  HarmonyEndTest() {
    Load({"<|call|>", "<|return|>", "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
          "<|end|>"});
    request_->sampling.stop_token_ids = {kFirstAdded, kFirstAdded + 1};
    Read("harmony", {.parse_calls = true, .split_reasoning = true});
  }
  // The output without its last token, which is sampled and ends it.
  Said SayUntil(const std::string& text, TokenId last) {
    std::vector<TokenId> tokens = Tokens(text);
    tokens.push_back(last);
    Start(*special_);
    ConsumeSample(Sample(tokens));
    SampleOutput end = Sample({});
    end.end = SampleEnd{.reason = FinishReason::kStop,
                        .stop_token = last,
                        .num_generated_tokens = 0,
                        .at = kOutputBegun};
    ConsumeSample(std::move(end));
    return What();
  }
};

TEST_F(HarmonyEndTest, ACallWithoutArgumentsIsWhole) {
  const std::string header = "<|channel|>commentary to=functions.f<|constrain|>json<|message|>";
  for (const char* const arguments : {"", " ", "{}"}) {
    SCOPED_TRACE(arguments);
    const Said said = SayUntil(header + arguments, kFirstAdded);
    ASSERT_THAT(said.calls, SizeIs(1));
    EXPECT_EQ(said.calls[0].name, "f");
    EXPECT_EQ(said.calls[0].arguments, "{}");
    EXPECT_EQ(said.text, "");
    EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_TOOL_CALLS);
    EXPECT_EQ(said.finish.stop_token_id(), kFirstAdded);
  }
}

TEST_F(HarmonyEndTest, AHeaderIsNoText) {
  request_->sampling.num_logprobs = 0;
  for (const bool skips : {true, false}) {
    options_.skip_special_tokens = skips;
    Read("harmony", {.split_reasoning = true, .keep_special_tokens = !skips});
    Start(*special_);
    ConsumeSample(
        WithLogprobs(Tokens("<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
                            "<|channel|>final<|message|>")));
    EXPECT_THAT(Parts(), Each(v1::TOKEN_PART_OTHER));
    const size_t num_before = Parts().size();
    ConsumeSample(WithLogprobs(Tokens("Hi")));
    std::vector<v1::TokenPart> parts = Parts();
    parts.erase(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(num_before));
    EXPECT_THAT(parts, Each(v1::TOKEN_PART_TEXT));
    EXPECT_EQ(What().text, "Hi");
  }
}

TEST_F(HarmonyEndTest, ACallThatIsCutIsNone) {
  const std::string header = "<|channel|>commentary to=functions.f<|message|>";
  const Said said = Say(Tokens(header), {1}, FinishReason::kLength, *special_);
  EXPECT_THAT(said.calls, SizeIs(0));
  EXPECT_EQ(said.finish.reason(), lockstep::v1::FINISH_REASON_LENGTH);
  const Said broken = SayUntil(header + "{\"x\": \"a", kFirstAdded);
  EXPECT_EQ(broken.calls.at(0).arguments, "{\"x\": \"a");
  EXPECT_EQ(broken.finish.reason(), lockstep::v1::FINISH_REASON_STOP);
  EXPECT_EQ(builder_->tool_calls().num_broken, 1u);
}

TEST_F(HarmonyEndTest, TheEndOfAMessageIsNotShown) {
  for (const bool skips : {true, false}) {
    options_.skip_special_tokens = skips;
    Read("harmony", {.split_reasoning = true, .keep_special_tokens = !skips});
    const Said said = SayUntil("<|channel|>final<|message|>Hi", kFirstAdded + 1);
    EXPECT_EQ(said.text, "Hi");
  }
}

}  // namespace
}  // namespace lockstep::router
