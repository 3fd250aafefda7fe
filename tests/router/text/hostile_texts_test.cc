// Texts of a mebibyte that are as bad as they can be for a step between text and tokens. Each must
// take about as long as a plain text of its size. A step that takes quadratic time needs minutes.
// Prints what each text took.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/text/detokenizer.h"
#include "router/text/stop_matcher.h"
#include "router/text/tokenizer/tokenizer.h"
#include "router/text/unicode/utf8.h"
#include "tests/router/text/golden_corpus.h"
#include "tests/router/text/tiny_tokenizer.h"
#include "tests/support/processor_time.h"

namespace lockstep::router {
namespace {

// Sanitizers make the steps ten times slower and look for other faults than slowness.
#ifdef LOCKSTEP_SANITIZED
constexpr size_t kTextBytes = size_t{1} << 16;
#else
constexpr size_t kTextBytes = size_t{1} << 20;
#endif
// Generous: the slowest takes some tenths of a second on an idle machine.
constexpr absl::Duration kBound = absl::Seconds(20);

// Runs `work` and checks its time.
void ExpectQuick(const std::string& what, const std::function<void()>& work) {
  const absl::Duration begin = ProcessorTime();
  work();
  const absl::Duration taken = ProcessorTime() - begin;
  std::printf("%-60s %6.0f ms\n", what.c_str(), absl::ToDoubleMilliseconds(taken));
  EXPECT_LT(taken, kBound) << what;
}

std::string Repeat(std::string_view unit) {
  std::string text;
  while (text.size() + unit.size() <= kTextBytes) text += unit;
  return text;
}

std::string RandomText(std::string_view alphabet) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < kTextBytes) text += alphabet[random() % alphabet.size()];
  return text;
}

struct HostileText {
  std::string name;
  std::string text;
};

std::vector<HostileText> HostileTexts() {
  std::vector<HostileText> texts = {
      {"plain words", Repeat("The quick brown fox jumps over the lazy dog. ")},
      {"one word of one letter", Repeat("a")},
      {"one word of random letters", RandomText("abcdefghijklmnopqrstuvwxyz")},
      {"one word of two letters", RandomText("ab")},
      {"one word of capitals", Repeat("A")},
      {"white space", Repeat(" ")},
      {"white space and a letter", Repeat(" ").substr(1) + "a"},
      {"line breaks", Repeat("\n")},
      {"white space of many kinds", RandomText(" \t\r\n\v\f")},
      {"line breaks far apart", Repeat(std::string(1000, ' ') + "\n")},
      {"digits", Repeat("1")},
      {"signs", Repeat("!")},
      {"random signs", RandomText("!?.,;:-_/\\|<>()[]{}'\"")},
      {"apostrophes", Repeat("'")},
      {"contractions", Repeat("'ll've")},
      {"starts of special tokens", Repeat("<|im_start|")},
      {"special tokens", Repeat("<|im_start|>")},
      {"special tokens in white space", Repeat(" <|im_end|> ")},
      {"one Chinese word", Repeat("\u4e2d\u6587")},
      {"emoji", Repeat("\U0001F468\u200D\U0001F469\u200D\U0001F467")},
      {"combining marks of one class", "a" + Repeat("\u0301")},
      {"combining marks of two classes", "a" + Repeat("\u0301\u0323")},
      {"combining marks, descending", "a" + Repeat("\u0345\u0301\u0323\u0334")},
      {"two runs of combining marks",
       Repeat("\u0301").substr(0, kTextBytes / 2) + Repeat("\u0323").substr(0, kTextBytes / 2)},
      {"marks that decompose", "a" + Repeat("\u0F73")},
      {"Hangul", Repeat("\u1100\u1161\u11A8")},
      {"Hangul vowels", Repeat("\u1161")},
      {"vowel signs that compose", Repeat("\u0BC6\u0BBE")},
  };
  return texts;
}

class HostileTextsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(HostileTextsTest, AreEncodedAndDecodedInLinearTime) {
  const auto tokenizer = Tokenizer::FromJson(ReadGoldenFile(GetParam() + ".json"), "", GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const HostileText& hostile : HostileTexts()) {
    std::vector<TokenId> ids;
    ExpectQuick(GetParam() + ": " + hostile.name, [&] {
      auto encoded = (*tokenizer)->Encode(hostile.text, {.parse_special_tokens = true});
      // A vocabulary may lack bytes.
      if (encoded.ok()) ids = *std::move(encoded);
    });
    ExpectQuick("  and back", [&] { (void)(*tokenizer)->Decode(ids, false); });
    ExpectQuick("  token by token", [&] {
      IncrementalDetokenizer detokenizer(**tokenizer, false);
      size_t num_bytes = 0;
      for (const TokenId id : ids) num_bytes += detokenizer.Push(id).size();
      EXPECT_LE(num_bytes, 3 * kTextBytes);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, HostileTextsTest,
                         ::testing::Values("gpt2", "llama3", "qwen2", "smollm2", "own_pattern"));

TEST(HostileVocabularyTest, ManyOverlappingAddedTokens) {
  nlohmann::json definition = TinyTokenizerJson();
  // Each is the start of a long run that no text has whole.
  for (uint32_t i = 1; i <= 200; ++i) {
    definition["added_tokens"].push_back({{"id", 262 + i},
                                          {"content", std::string(i, '<') + "|"},
                                          {"single_word", i % 2 == 0},
                                          {"lstrip", i % 3 == 0},
                                          {"rstrip", i % 5 == 0},
                                          {"normalized", false},
                                          {"special", true}});
  }
  // White space before and after it belongs to it, and is a token, too.
  for (uint32_t i = 1; i <= 20; ++i) {
    definition["added_tokens"].push_back({{"id", 462 + i},
                                          {"content", std::string(i, ' ')},
                                          {"single_word", false},
                                          {"lstrip", true},
                                          {"rstrip", true},
                                          {"normalized", false},
                                          {"special", false}});
  }
  const auto tokenizer = LoadTiny(definition);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const std::string& text : {Repeat("<"), Repeat("<|"), Repeat(" "), Repeat(" <|"),
                                  Repeat(std::string(199, '<') + " ")}) {
    ExpectQuick("added tokens in " + text.substr(0, 4), [&] {
      EXPECT_TRUE((*tokenizer)->Encode(text, {.parse_special_tokens = true}).ok());
    });
  }
}

TEST(HostilePiecesTest, BytesThatAreNoText) {
  const auto tokenizer = LoadTiny(TinyTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  // Ids below 256 are bytes.
  for (const std::vector<TokenId>& unit :
       std::vector<std::vector<TokenId>>{{0x80}, {0xE2, 0x82}, {0xF0, 0x9F, 0x98}, {0xFF, 0xC3}}) {
    std::vector<TokenId> ids;
    while (ids.size() < kTextBytes) ids.insert(ids.end(), unit.begin(), unit.end());
    ExpectQuick(fmt::format("bytes {:02x}...", unit[0]), [&] {
      IncrementalDetokenizer detokenizer(**tokenizer, false);
      std::string text;
      for (const TokenId id : ids) text += detokenizer.Push(id);
      text += detokenizer.Flush();
      EXPECT_EQ(FindInvalidUtf8(text), std::nullopt);
    });
  }
}

TEST(HostileStopStringsTest, NearlyMatchAgainAndAgain) {
  std::vector<std::string> stops;
  for (int i = 0; i < 16; ++i) {
    stops.push_back(std::string(255 - static_cast<size_t>(i), 'a') + static_cast<char>('b' + i));
  }
  for (const size_t piece_bytes : {size_t{1}, size_t{7}, kTextBytes}) {
    ExpectQuick(fmt::format("stop strings, pieces of {}", piece_bytes), [&] {
      StopMatcher matcher(stops, /*include_stop=*/false);
      const std::string text = Repeat("a");
      size_t num_bytes = 0;
      for (size_t at = 0; at < text.size(); at += piece_bytes) {
        const StopMatcher::Output out = matcher.Push(text.substr(at, piece_bytes));
        ASSERT_FALSE(out.matched.has_value());
        num_bytes += out.text.size();
      }
      EXPECT_EQ(num_bytes + matcher.Flush().size(), text.size());
    });
  }
}

}  // namespace
}  // namespace lockstep::router
