#include "router/calls/output_parser.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "router/calls/output_format_table.h"
#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxPairBytes = 90;  // pairs of cuts are tried up to this size

class OutputCaseTest : public testing::TestWithParam<OutputCase> {
 protected:
  const OutputFormat& format() const { return **FindOutputFormat(GetParam().format); }
  OutputParser::Options options() const {
    OutputParser::Options options = kEverything;
    options.begins_in_reasoning = GetParam().begins_in_reasoning;
    return options;
  }
  Parsed Expected() const {
    Parsed expected;
    for (const OutputPart& part : GetParam().expected) {
      expected.num_whole_calls += part.kind == OutputPart::Kind::kCallEnd;
      expected.num_broken_calls += part.kind == OutputPart::Kind::kCallBroken;
      const bool joins = !expected.parts.empty() && expected.parts.back().kind == part.kind &&
                         part.kind <= OutputPart::Kind::kReasoning;
      if (joins) {
        expected.parts.back().text += part.text;
      } else {
        expected.parts.push_back(part);
      }
    }
    return expected;
  }
  void ExpectSame(const std::vector<Piece>& pieces) const {
    const Parsed parsed = Parse(format(), pieces, options());
    if (parsed == Expected()) return;
    std::string cuts;
    for (const Piece& piece : pieces) cuts += (piece.special ? "!" : "") + piece.text + "\xC2\xA6";
    FAIL() << "pieces: " << cuts << "\ngot:\n"
           << Describe(parsed.parts) << "expected:\n"
           << Describe(Expected().parts);
  }
  const std::string& output() const { return GetParam().output; }
};

TEST_P(OutputCaseTest, Whole) { ExpectSame(CutAt(output(), {})); }

TEST_P(OutputCaseTest, CutAtEveryByte) {
  for (size_t i = 0; i <= output().size() && !HasFailure(); ++i) ExpectSame(CutAt(output(), {i}));
}

TEST_P(OutputCaseTest, CutAtEveryPairOfBytes) {
  if (output().size() > kMaxPairBytes) return;
  for (size_t i = 0; i <= output().size(); ++i) {
    for (size_t j = i; j <= output().size() && !HasFailure(); ++j) {
      ExpectSame(CutAt(output(), {i, j}));
    }
  }
}

TEST_P(OutputCaseTest, ByteByByte) { ExpectSame(EachByte(output())); }

TEST_P(OutputCaseTest, RandomTokens) {
  for (uint32_t seed = 0; seed < 50 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::uniform_int_distribution<size_t> length(0, 1 + random() % 20);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < output().size();) {
      const size_t n = length(random);
      pieces.push_back({output().substr(i, n), false});
      i += n;
    }
    ExpectSame(pieces);
  }
}

// Each tag of the format is one special token, as in a vocabulary that has it. Other special tokens
// between them are dropped.
TEST_P(OutputCaseTest, TagsAsSpecialTokens) {
  const CallTags& tags = format().tags;
  std::vector<std::string_view> tokens = {
      format().think_open, format().think_end, tags.block_open, tags.call_open,
      tags.call_end,       tags.block_end,     tags.name_end,   "<|\"|>"};
  tokens.insert(tokens.end(), format().frame.begin(), format().frame.end());
  std::vector<Piece> pieces;
  for (size_t i = 0; i < output().size();) {
    std::string_view longest;
    for (const std::string_view token : tokens) {
      const bool fits = token.size() > 1 && output().compare(i, token.size(), token) == 0;
      if (fits && IsMarker(format(), token) && token.size() > longest.size()) longest = token;
    }
    if (longest.empty()) {
      pieces.push_back({output().substr(i, 1), false});
    } else {
      pieces.push_back({"<|other|>", true});
      pieces.push_back({std::string(longest), true});
    }
    i += pieces.back().text.size();
  }
  ExpectSame(pieces);
}

// Content and reasoning hold the whole output, if there is no call, except tags and white space.
TEST_P(OutputCaseTest, NothingIsLost) {
  const Parsed parsed = Parse(format(), CutAt(output(), {}), options());
  if (parsed.num_whole_calls > 0 || format().style == CallStyle::kHarmony) return;
  std::string said;
  for (const OutputPart& part : parsed.parts) said += part.text;
  const auto plain = [&](std::string text) {
    for (const std::string_view tag : {format().think_open, format().think_end}) {
      for (size_t at; !tag.empty() && (at = text.find(tag)) != std::string::npos;) {
        text.erase(at, tag.size());
      }
    }
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\r'; });
    return text;
  };
  if (parsed.num_broken_calls == 0) {
    EXPECT_EQ(plain(said), plain(output()));
  } else {
    EXPECT_FALSE(said.empty());
  }
}

// A call is complete JSON, and its name is in one piece.
TEST_P(OutputCaseTest, PartsHaveTheirOrder) {
  OutputParser parser(format(), CaseTools(), options());
  Parts parts;
  for (const Piece& piece : EachByte(output())) parser.Push(piece.text, false, parts);
  parser.Finish(parts);
  bool in_call = false;
  for (const OutputPart& part : parts) {
    switch (part.kind) {
      case OutputPart::Kind::kCallBegin:
        EXPECT_FALSE(in_call || part.text.empty());
        in_call = true;
        break;
      case OutputPart::Kind::kCallArguments:
        EXPECT_TRUE(in_call && !part.text.empty());
        break;
      case OutputPart::Kind::kCallEnd:
      case OutputPart::Kind::kCallBroken:
        EXPECT_TRUE(in_call && part.text.empty());
        in_call = false;
        break;
      default:
        EXPECT_FALSE(in_call || part.text.empty());
    }
  }
  EXPECT_FALSE(in_call);
}

INSTANTIATE_TEST_SUITE_P(All, OutputCaseTest, testing::ValuesIn(AllCases()), [](const auto& info) {
  return info.param.format + "_" + info.param.name + "_" + std::to_string(info.index);
});

TEST(OutputCasesTest, EachFormatHasCases) {
  std::set<std::string> formats;
  for (const OutputCase& item : AllCases()) formats.insert(item.format);
  for (const OutputFormat& format : OutputFormats()) {
    EXPECT_TRUE(formats.contains(std::string(format.name))) << format.name;
  }
}

Parts PushOne(OutputParser& parser, std::string_view text, bool special = false) {
  Parts parts;
  parser.Push(text, special, parts);
  return parts;
}

// --- what comes when ---

TEST(OutputParserTest, OnlyAPossibleMarkerWaits) {
  OutputParser parser(**FindOutputFormat("hermes"), CaseTools(), kEverything);
  EXPECT_EQ(PushOne(parser, "Hello"), Content("Hello"));
  EXPECT_EQ(PushOne(parser, " there <to"), Content(" there"));  // the space, too
  EXPECT_EQ(PushOne(parser, "p> "), Content(" <top>"));
  EXPECT_EQ(PushOne(parser, "x<tool_call"), Content(" x"));
  EXPECT_EQ(PushOne(parser, "s"), Content("<tool_calls"));
  // In the middle of content, <think> is text, and does not wait.
  EXPECT_EQ(PushOne(parser, "<th"), Content("<th"));
}

TEST(OutputParserTest, NothingWaitsWithoutMarkers) {
  OutputParser parser(**FindOutputFormat("think"), CaseTools(), kEverything);
  EXPECT_EQ(PushOne(parser, "a <"), Content("a <"));
  EXPECT_EQ(PushOne(parser, "\n \n"), Content("\n \n"));
}

TEST(OutputParserTest, ArgumentsStream) {
  OutputParser parser(**FindOutputFormat("hermes"), CaseTools(), kEverything);
  EXPECT_EQ(PushOne(parser, "<tool_call>\n{\"name\": \"search\", \"argu"), Parts());
  EXPECT_EQ(PushOne(parser, "ments\": {\"query"),
            (Parts{{OutputPart::Kind::kCallBegin, "search"},
                   {OutputPart::Kind::kCallArguments, "{\"query"}}));
  EXPECT_EQ(PushOne(parser, "\": \"a"), (Parts{{OutputPart::Kind::kCallArguments, "\": \"a"}}));
  EXPECT_EQ(PushOne(parser, "\\u00"), Parts());  // an escape comes whole
  EXPECT_EQ(PushOne(parser, "e9"), (Parts{{OutputPart::Kind::kCallArguments, "\\u00e9"}}));
  EXPECT_EQ(PushOne(parser, "\"}"), (Parts{{OutputPart::Kind::kCallArguments, "\"}"}}));
  EXPECT_EQ(PushOne(parser, "}"), (Parts{{OutputPart::Kind::kCallEnd, ""}}));
  EXPECT_EQ(PushOne(parser, "\n</tool_call>"), Parts());
  EXPECT_EQ(parser.num_whole_calls(), 1U);
}

TEST(OutputParserTest, StringsBetweenTagsStream) {
  OutputParser parser(**FindOutputFormat("qwen3_coder"), CaseTools(), kEverything);
  EXPECT_EQ(PushOne(parser, "<tool_call>\n<function=search>\n<parameter=query"), Parts());
  EXPECT_EQ(PushOne(parser, ">\n"), (Parts{{OutputPart::Kind::kCallBegin, "search"},
                                           {OutputPart::Kind::kCallArguments, "{\"query\":\""}}));
  EXPECT_EQ(PushOne(parser, "one\""), (Parts{{OutputPart::Kind::kCallArguments, "one\\\""}}));
  EXPECT_EQ(PushOne(parser, "\n"), Parts());  // perhaps the last line break, which is dropped
  EXPECT_EQ(PushOne(parser, "two\n</"), (Parts{{OutputPart::Kind::kCallArguments, "\\ntwo"}}));
  EXPECT_EQ(PushOne(parser, "parameter>"), (Parts{{OutputPart::Kind::kCallArguments, "\""}}));
}

TEST(OutputParserTest, ReasoningStreams) {
  OutputParser parser(**FindOutputFormat("think"), CaseTools(), kEverything);
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_EQ(PushOne(parser, "<think>\nA"), Reasoning("A"));
  EXPECT_TRUE(parser.in_reasoning());
  EXPECT_EQ(PushOne(parser, "b\n"), Reasoning("b"));
  EXPECT_EQ(PushOne(parser, "</think>"), Parts());
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_EQ(PushOne(parser, "\n\nC"), Content("C"));
}

// --- options ---

TEST(OutputParserTest, WithoutCallsTheirMarkersAreContent) {
  const std::string output = "<think>a</think>\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>";
  const Parsed parsed = Parse("hermes", output, {.split_reasoning = true});
  EXPECT_EQ(parsed.parts,
            Reasoning("a") + Content("<tool_call>\n{\"name\": \"now\"}\n</tool_call>"));
  EXPECT_EQ(parsed.num_whole_calls, 0U);
}

TEST(OutputParserTest, WithoutReasoningItsMarkersAreContent) {
  const std::string output = "<think>\na\n</think>\n\nb <tool_call>{\"name\": \"now\"}</tool_call>";
  EXPECT_EQ(Parse("hermes", output, {.parse_calls = true}).parts,
            Content("<think>\na\n</think>\n\nb") + Call("now", "{}"));
  EXPECT_EQ(
      Parse("hermes", "a\n</think>\nb", {.parse_calls = true, .begins_in_reasoning = true}).parts,
      Content("a\n</think>\nb"));
}

TEST(OutputParserTest, WithoutAnythingAllIsContent) {
  const std::string output = "<think>\na\n</think>\n<tool_call>{\"name\": \"now\"}</tool_call>\n";
  EXPECT_EQ(Parse("hermes", output, {}).parts, Content(output));
}

TEST(OutputParserTest, HarmonyWithoutCallsOrReasoning) {
  const std::string output =
      "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.now<|message|>{}<|call|>";
  EXPECT_EQ(Parse("harmony", output, {.split_reasoning = true}).parts,
            Reasoning("A") + Content("{}"));
  EXPECT_EQ(Parse("harmony", output, {.parse_calls = true}).parts,
            Content("A") + Call("now", "{}"));
}

TEST(OutputParserTest, SpecialTokensThatAreNoMarkers) {
  const std::vector<Piece> pieces = {{"a", false}, {"<|eot|>", true}, {"b", false}};
  const OutputFormat& format = **FindOutputFormat("hermes");
  EXPECT_EQ(Parse(format, pieces).parts, Content("ab"));
  OutputParser::Options options = kEverything;
  options.keep_special_tokens = true;
  EXPECT_EQ(Parse(format, pieces, options).parts, Content("a<|eot|>b"));
}

TEST(OutputParserTest, PartsOfEarlierPiecesStayAsTheyAre) {
  OutputParser parser(**FindOutputFormat("hermes"), CaseTools(), kEverything);
  Parts parts;
  parser.Push("a", false, parts);
  parser.Push("b", false, parts);
  EXPECT_EQ(parts, Content("a") + Content("b"));
}

TEST(OutputParserTest, CanBeMoved) {
  OutputParser first(**FindOutputFormat("hermes"), CaseTools(), kEverything);
  PushOne(first, "<tool_call>{\"name\": \"now\"");
  OutputParser second = std::move(first);
  EXPECT_EQ(PushOne(second, "}"), Call("now", "{}"));
}

// --- bytes ---

TEST(OutputParserTest, InvalidUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(Parse("hermes", "a\xFF\xE6\x9D").parts, Content("a\xEF\xBF\xBD\xEF\xBF\xBD"));
  EXPECT_EQ(
      Parse("hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"\xC3\"}}").parts,
      Call("now", "{\"a\": \"\xEF\xBF\xBD\"}"));
}

TEST(OutputParserTest, ACharacterMayComeInPieces) {
  OutputParser parser(**FindOutputFormat("hermes"), CaseTools(), kEverything);
  EXPECT_EQ(PushOne(parser, "a\xF0\x9F"), Content("a"));
  EXPECT_EQ(PushOne(parser, "\x98\x80"), Content("\xF0\x9F\x98\x80"));
  // A special token ends an unfinished character.
  EXPECT_EQ(PushOne(parser, "\xF0"), Parts());
  EXPECT_EQ(PushOne(parser, "<tool_call>", true), Content("\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace lockstep::router
