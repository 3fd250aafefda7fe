#include "router/calls/scanners/json_text_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

namespace lockstep::router {
namespace {

std::optional<std::string> Scan(std::string_view text) {
  std::string out;
  if (!ScanJson(text, out)) return std::nullopt;
  return out;
}

TEST(JsonTextScannerTest, KeepsTheTextOfAValue) {
  for (const char* const text :
       {"{}", "[]", "0", "-0", "12", "-1.5", "1e5", "1.25E-3", "2e+9", "true", "false", "null",
        "\"\"", "\"a\"", R"({"a": [1, {"b" : null}, "\u00e9\\\"\/"], "c":{} })", "[ 1 , [ ] ]",
        "\"\xF0\x9F\x98\x80\"", R"("\ud83d\ude00")", "[1\n,\t2]"}) {
    EXPECT_EQ(Scan(text), text);
  }
  EXPECT_EQ(Scan(" \n{} \t"), "{}");
}

TEST(JsonTextScannerTest, RefusesOtherText) {
  for (const char* const text :
       {"",       " ",       "{",         "[",           "\"a",         "{]",  "[}",   "{} {}",
        "{}x",    "01",      "1.",        ".5",          "-",           "+1",  "1e",   "1e+",
        "0x10",   "1 2",     "tru",       "trux",        "True",        "nul", "NaN",  "'a'",
        "{a: 1}", "{\"a\"}", "{\"a\" 1}", "{\"a\": }",   "{\"a\": 1,}", "{,}", "[1,]", "[,1]",
        "[1 2]",  "{1: 2}",  "\"\\x\"",   "\"\\u12g4\"", "\"\\'\"",     "]",   "}",    ",",
        ":",      "1-",      "1.5.2",     "1e5e5"}) {
    EXPECT_EQ(Scan(text), std::nullopt) << text;
  }
}

TEST(JsonTextScannerTest, MendsStrings) {
  EXPECT_EQ(Scan("\"a\nb\x01\t\r\""), R"("a\nb\u0001\t\r")");
  EXPECT_EQ(Scan(R"("\ud83d")"), R"("\ufffd")");
  EXPECT_EQ(Scan(R"("\ude00")"), R"("\ufffd")");
  EXPECT_EQ(Scan(R"("\ud83dx\ud83d\n\ud83d\ud83d\ude00\uDE00")"),
            R"("\ufffdx\ufffd\n\ufffd\ud83d\ude00\ufffd")");
  EXPECT_EQ(Scan(R"({"\ud83d": 1})"), R"({"\ufffd": 1})");
}

TEST(JsonTextScannerTest, Bounds) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(Scan(nested(kMaxCallDepth)));
  EXPECT_FALSE(Scan(nested(kMaxCallDepth + 1)));
  EXPECT_TRUE(Scan(std::string(kMaxNumberBytes, '1')));
  EXPECT_FALSE(Scan(std::string(kMaxNumberBytes + 1, '1')));
}

TEST(JsonTextScannerTest, TheEndOfANumberIsSeenBehindIt) {
  JsonTextScanner scanner;
  std::string out;
  EXPECT_EQ(scanner.Push('1', out), ScanState::kMore);
  EXPECT_TRUE(scanner.IsWhole());
  EXPECT_EQ(scanner.Push('.', out), ScanState::kMore);
  EXPECT_FALSE(scanner.IsWhole());
  EXPECT_EQ(scanner.Push('5', out), ScanState::kMore);
  EXPECT_EQ(scanner.Push('}', out), ScanState::kEndedBefore);
  EXPECT_EQ(out, "1.5");
  JsonTextScanner word;
  for (const char c : std::string_view("nul")) EXPECT_EQ(word.Push(c, out), ScanState::kMore);
  EXPECT_EQ(word.Push('l', out), ScanState::kDone);
}

TEST(JsonTextScannerTest, EscapesAreWritten) {
  std::string out;
  AppendJsonEscaped("a\"\\\n\r\t\b\x1f\x7f\xC3\xA9", out);
  EXPECT_EQ(out, "a\\\"\\\\\\n\\r\\t\\u0008\\u001f\x7f\xC3\xA9");
  EXPECT_EQ(DecodeJsonString('"' + out + '"'), "a\"\\\n\r\t\b\x1f\x7f\xC3\xA9");
}

// Another parser judges mutated texts. It also reads what the scanner mends.
TEST(JsonTextScannerTest, AgreesWithAnotherParser) {
  const std::string original =
      R"({"a": [1, -2.50e+3, "x\n\u00e9\\"], "b": {"c": true, "d": null}, "e": [[], {}, false]})";
  constexpr std::string_view kBytes = "{}[],:\"\\ 0123456789.eE+-truefalsn";
  std::mt19937 random(11);
  size_t num_valid = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = original;
    for (size_t n = random() % 3; n > 0; --n) {
      const size_t at = random() % text.size();
      const char c = kBytes[random() % kBytes.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.erase(at, 1);
          break;
        default:
          text.insert(at, 1, c);
      }
    }
    const auto expected = nlohmann::json::parse(text, nullptr, false);
    const std::optional<std::string> scanned = Scan(text);
    // The other parser refuses half surrogates and numbers that are too large.
    if (expected.is_discarded() && scanned) {
      EXPECT_TRUE(text.find("\\u") != std::string::npos ||
                  text.find_first_of("eE") != std::string::npos)
          << text;
      continue;
    }
    ASSERT_EQ(scanned.has_value(), !expected.is_discarded()) << text;
    if (!scanned) continue;
    ++num_valid;
    const size_t begin = text.find('{');  // a space may stand before it
    EXPECT_EQ(*scanned, text.substr(begin, text.rfind('}') + 1 - begin));
  }
  EXPECT_GT(num_valid, 1000U);
}

}  // namespace
}  // namespace lockstep::router
