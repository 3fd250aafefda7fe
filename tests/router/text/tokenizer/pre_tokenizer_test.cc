#include "router/text/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "router/text/tokenizer/regex_splitter.h"
#include "router/text/unicode/char_class.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

using Pieces = std::vector<std::string>;

Pieces SplitAll(const Splitter& splitter, std::string_view text) {
  Pieces pieces;
  for (size_t begin = 0; begin < text.size();) {
    const std::optional<size_t> end = splitter.PieceEnd(text, begin);
    if (!end || *end <= begin || *end > text.size()) {
      ADD_FAILURE() << "piece without an end at " << begin;
      break;
    }
    pieces.emplace_back(text.substr(begin, *end - begin));
    begin = *end;
  }
  return pieces;
}

// Text made of characters at which the patterns turn.
std::string RandomText(std::mt19937& rng) {
  constexpr std::u32string_view kPool =
      U"   \t\n\r\v\f\u0085\u00a0\u2003\u2028\u3000\u200b'''sStTrReEvVmMlLdD\u017f\u212a"
      U"abz019\u00e9\u00df\u0130\u0663\u00bd\u2167\u4e2d\u3042\uac00\u0301\u093c\u00ad.,!?-_<|>"
      U"\u20ac\U0001f600";
  std::string text;
  const size_t length = rng() % 16;
  for (size_t i = 0; i < length; ++i) text += EncodeUtf8(kPool[rng() % kPool.size()]);
  return text;
}

class KnownPatternTest : public testing::TestWithParam<KnownPattern> {};

TEST_P(KnownPatternTest, ScannerEqualsThePublishedPattern) {
  const auto scanner = MakeKnownSplitter(GetParam());
  const auto regex = MakeRegexSplitter(PatternSource(GetParam()));
  ASSERT_TRUE(regex.ok()) << regex.status();
  std::mt19937 rng(11);
  for (int round = 0; round < 50'000; ++round) {
    const std::string text = RandomText(rng);
    ASSERT_EQ(SplitAll(*scanner, text), SplitAll(**regex, text)) << text;
  }
}

TEST_P(KnownPatternTest, LongRunsStayLinear) {
  const auto scanner = MakeKnownSplitter(GetParam());
  for (const std::string_view unit :
       {"a", " ", "\n", "!", "1", " \t", "'", "\u4e2d", "\n ", "a "}) {
    std::string text;
    while (text.size() < 500'000) text += unit;
    const Pieces pieces = SplitAll(*scanner, text + "x");  // quadratic work would take hours
    EXPECT_FALSE(pieces.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, KnownPatternTest,
                         testing::Values(KnownPattern::kGpt2, KnownPattern::kLlama3,
                                         KnownPattern::kQwen2));

TEST(PreTokenizerTest, SplitsAsPublished) {
  const auto gpt2 = MakeKnownSplitter(KnownPattern::kGpt2);
  EXPECT_EQ(SplitAll(*gpt2, "I'll pay  $12345 \n\nnow"),
            (Pieces{"I", "'ll", " pay", " ", " $", "12345", " \n", "\n", "now"}));
  const auto llama3 = MakeKnownSplitter(KnownPattern::kLlama3);
  EXPECT_EQ(SplitAll(*llama3, "I'LL pay  $12345 \n\nnow"),
            (Pieces{"I", "'LL", " pay", " ", " $", "123", "45", " \n\n", "now"}));
  const auto qwen2 = MakeKnownSplitter(KnownPattern::kQwen2);
  EXPECT_EQ(SplitAll(*qwen2, "x=12;\n\n\ty"), (Pieces{"x", "=", "1", "2", ";\n\n", "\ty"}));
}

TEST(PreTokenizerTest, DigitsAloneOrInRuns) {
  EXPECT_EQ(SplitAll(*MakeDigitSplitter(true), "ab12\u0663c"),
            (Pieces{"ab", "1", "2", "\u0663", "c"}));
  EXPECT_EQ(SplitAll(*MakeDigitSplitter(false), "ab12\u0663c"), (Pieces{"ab", "12\u0663", "c"}));
}

TEST(PreTokenizerTest, StagesCutEachOthersPieces) {
  std::vector<PreTokenizer::Stage> stages;
  stages.push_back({.splitter = MakeDigitSplitter(true)});
  stages.push_back({.splitter = MakeKnownSplitter(KnownPattern::kGpt2)});
  const PreTokenizer pre_tokenizer(std::move(stages));
  Pieces pieces;
  EXPECT_TRUE(pre_tokenizer.Split("   1 a", [&](std::string_view p) { pieces.emplace_back(p); }));
  EXPECT_EQ(pieces, (Pieces{"   ", "1", " a"}));
}

TEST(PreTokenizerTest, PrefixSpaceGoesBeforeEveryPieceOfItsStage) {
  std::vector<PreTokenizer::Stage> stages;
  stages.push_back({.splitter = MakeDigitSplitter(true)});
  stages.push_back({.splitter = nullptr, .add_prefix_space = true});
  const PreTokenizer pre_tokenizer(std::move(stages));
  Pieces pieces;
  EXPECT_TRUE(pre_tokenizer.Split("a1 b", [&](std::string_view p) { pieces.emplace_back(p); }));
  EXPECT_EQ(pieces, (Pieces{" a", " 1", " b"}));
}

TEST(RegexSplitterTest, KeepsWhatLiesBetweenMatches) {
  const auto splitter = MakeRegexSplitter("[0-9]+");
  ASSERT_TRUE(splitter.ok()) << splitter.status();
  EXPECT_EQ(SplitAll(**splitter, "ab12c3"), (Pieces{"ab", "12", "c", "3"}));
}

TEST(RegexSplitterTest, WhiteSpaceIsTheUnicodeProperty) {
  const auto splitter = MakeRegexSplitter(R"(\s+|[^\s]+)");
  ASSERT_TRUE(splitter.ok()) << splitter.status();
  EXPECT_EQ(SplitAll(**splitter, "a\u180e\u0085\u00a0b"), (Pieces{"a\u180e", "\u0085\u00a0", "b"}));
}

TEST(RegexSplitterTest, RefusesWhatTheTwoEnginesReadDifferently) {
  for (const char* pattern :
       {"",        "^a",      "a$",     "a.b",         R"(\w+)",       R"(\ba)",
        R"(\h)",   "[a[b]]",  "[a&&b]", "(?<x>a)",     "(?m)a",        "(a)\\1",
        "a{1,2}+", R"([\S])", "[]a]",   "[[:alpha:]]", R"(\p{L)",      R"(\p{x=y})",
        "(?i:ss)", "a*",      "(a",     "\\",          R"(\p{Nosuch})"}) {
    EXPECT_EQ(MakeRegexSplitter(pattern).status().code(), absl::StatusCode::kInvalidArgument)
        << pattern;
  }
}

TEST(RegexSplitterTest, ManyBacktracksGiveUpInsteadOfHanging) {
  const auto splitter = MakeRegexSplitter("(?:a+)+b");
  ASSERT_TRUE(splitter.ok()) << splitter.status();
  EXPECT_EQ((*splitter)->PieceEnd(std::string(60, 'a') + "xb", 0), std::nullopt);
}

TEST(CharClassTest, TellsTheClassesApart) {
  const CharClasses classes;
  EXPECT_EQ(classes[U'a'], CharClass::kLetter);
  EXPECT_EQ(classes[U'\u4e2d'], CharClass::kLetter);
  EXPECT_EQ(classes[U'\U000323AF'], CharClass::kLetter);  // the last letter of Unicode 16
  EXPECT_EQ(classes[U'\u00bd'], CharClass::kNumber);
  EXPECT_EQ(classes[U'\u0085'], CharClass::kSpace);
  EXPECT_EQ(classes[U'\u180e'], CharClass::kOther);
  EXPECT_EQ(classes[U'\u0301'], CharClass::kOther);
  EXPECT_EQ(classes[0x10FFFF], CharClass::kOther);
}

}  // namespace
}  // namespace lockstep::router
