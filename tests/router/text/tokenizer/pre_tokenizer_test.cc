#include "router/text/tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <random>

#include "router/text/tokenizer/regex_splitter.h"
#include "router/text/unicode/char_class.h"
#include "router/text/unicode/utf8.h"
#include "tests/support/processor_time.h"

namespace lockstep::router {
namespace {

using Pieces = std::vector<std::string>;

Pieces SplitAll(const Splitter& splitter, std::string_view text) {
  Pieces pieces;
  PatternBudget budget(text.size());
  for (size_t begin = 0; begin < text.size();) {
    const std::optional<size_t> end = splitter.PieceEnd(text, begin, budget);
    if (!end || *end <= begin || *end > text.size()) {
      ADD_FAILURE() << "piece without an end at " << begin;
      break;
    }
    pieces.emplace_back(text.substr(begin, *end - begin));
    begin = *end;
  }
  return pieces;
}

auto CollectInto(Pieces& pieces) {
  return [&pieces](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  };
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
  EXPECT_TRUE(pre_tokenizer.Split("   1 a", CollectInto(pieces)));
  EXPECT_EQ(pieces, (Pieces{"   ", "1", " a"}));
}

TEST(PreTokenizerTest, PrefixSpaceGoesBeforeEveryPieceOfItsStage) {
  std::vector<PreTokenizer::Stage> stages;
  stages.push_back({.splitter = MakeDigitSplitter(true)});
  stages.push_back({.splitter = nullptr, .add_prefix_space = true});
  const PreTokenizer pre_tokenizer(std::move(stages));
  Pieces pieces;
  EXPECT_TRUE(pre_tokenizer.Split("a1 b", CollectInto(pieces)));
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
  const std::string text = std::string(60, 'a') + "xb";
  PatternBudget budget(text.size());
  EXPECT_EQ((*splitter)->PieceEnd(text, 0, budget), std::nullopt);
}

// Patterns of published models, and patterns that look far ahead or behind.
constexpr std::string_view kPatterns[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"(\p{N}{1,3})",
    R"((?<=a)b+|c)",
    R"([\p{P}\p{S}]+(?=[a-z])|\s+)",
    R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|\s+)",
    R"((?i:'s|'t)|[a-z]+(?![0-9])|\s?[0-9]+)",
    R"((?<!\p{N})\p{N}{2}|x+y|\s{2,})",
};

// What PCRE2 finds when it sees the whole text at once.
size_t PieceEndInWhole(const pcre2_code* code, std::string_view text, size_t begin) {
  pcre2_match_data* const data = pcre2_match_data_create(1, nullptr);
  const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                 begin, PCRE2_NO_UTF_CHECK, data, nullptr);
  const PCRE2_SIZE* const offsets = pcre2_get_ovector_pointer(data);
  const size_t end = result < 0 ? text.size() : offsets[0] > begin ? offsets[0] : offsets[1];
  pcre2_match_data_free(data);
  return end;
}

TEST(RegexSplitterTest, AWindowShowsWhatTheWholeTextShows) {
  std::mt19937 rng(5);
  for (const std::string_view pattern : kPatterns) {
    const auto splitter = MakeRegexSplitter(pattern);
    ASSERT_TRUE(splitter.ok()) << splitter.status();
    // White space of the random texts is that of \s for PCRE2, too.
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    pcre2_code* const code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP, &error, &error_offset, nullptr);
    ASSERT_NE(code, nullptr) << pattern;
    constexpr std::u32string_view kPool =
        U"   \n\n\r\t''sStTaabbccxyxyAB0119999\u00e9\u00c0\u4e2d\u0301.,!/_\U0001f600";
    for (int round = 0; round < 300; ++round) {
      std::string text;
      char32_t c = U'a';
      for (size_t i = rng() % 1500; i > 0; --i) {  // runs are longer than windows
        if (rng() % (1 + static_cast<unsigned>(round)) == 0) c = kPool[rng() % kPool.size()];
        text += EncodeUtf8(c);
      }
      PatternBudget budget(text.size());
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = PieceEndInWhole(code, text, begin);
        ASSERT_EQ((*splitter)->PieceEnd(text, begin, budget), end) << pattern << " at " << begin;
        begin = end;
      }
    }
    pcre2_code_free(code);
  }
}

// Generous: a text takes less than a second, where quadratic work takes minutes.
TEST(RegexSplitterTest, EveryTextEndsInLinearTimeOrIsGivenUp) {
  for (const std::string_view pattern : kPatterns) {
    const auto splitter = MakeRegexSplitter(pattern);
    ASSERT_TRUE(splitter.ok()) << splitter.status();
    for (const std::string_view unit :
         {"1", "a", " ", "A", "'", "\n", "\u4e2d", "!", "\u0301", " \n", "9 ", "aA", "x"}) {
      std::string text;
      while (text.size() < size_t{1} << 20) text += unit;
      PatternBudget budget(text.size());
      const absl::Duration started = ProcessorTime();
      for (std::optional<size_t> end = 0; end && *end < text.size();) {
        end = (*splitter)->PieceEnd(text, *end, budget);
      }
      EXPECT_LT(ProcessorTime() - started, absl::Seconds(15)) << pattern << " on " << unit;
    }
  }
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
