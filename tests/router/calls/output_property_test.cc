// Properties of all formats, on outputs that nobody wrote.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "router/calls/call_output.h"
#include "router/calls/output_format_table.h"
#include "router/text/unicode/utf8.h"
#include "tests/router/calls/output_cases.h"
#include "tests/support/processor_time.h"

namespace lockstep::router {
namespace {

constexpr int kManyRounds = 3000;
#ifdef LOCKSTEP_SANITIZED
constexpr int kRounds = 300;
#else
constexpr int kRounds = kManyRounds;
#endif

// Fragments of a format's syntax, whole or cut, and bytes.
class OutputMaker {
 public:
  OutputMaker(const OutputFormat& format, uint32_t seed) : random_(seed) {
    const CallTags& tags = format.tags;
    for (const std::string_view tag :
         {format.think_open, format.think_end, tags.block_open, tags.call_open, tags.name_prefix,
          tags.id_open, tags.name_end, tags.key_open, tags.key_end, tags.value_open,
          tags.string_open, tags.value_end, tags.fence_open, tags.fence_end, tags.call_end,
          tags.block_end, format.whole_message}) {
      if (!tag.empty()) fragments_.emplace_back(tag);
    }
    for (const std::string_view frame : format.frame) {
      if (!frame.empty()) fragments_.emplace_back(frame);
    }
    const auto joined = [](std::initializer_list<std::string_view> texts) {
      std::string whole;
      for (const std::string_view text : texts) whole += text;
      return whole;
    };
    // Pieces of calls that are nearly whole.
    for (int i = 0; i < 3; ++i) {
      fragments_.push_back(joined({tags.block_open, tags.call_open, "search", tags.name_end}));
      fragments_.push_back(joined({tags.key_open, "query", tags.key_end, tags.value_open}));
      fragments_.push_back(joined({tags.value_end, tags.call_end, tags.block_end}));
      fragments_.push_back(joined({tags.block_open, R"({"name": "now", "parameters": {}})"}));
    }
    for (const char* const text : {"{\"name\": \"now\", \"arguments\": {",
                                   "}",
                                   "]",
                                   "[",
                                   ")",
                                   "(",
                                   ",",
                                   "\"",
                                   "'",
                                   "\\",
                                   "\n",
                                   " ",
                                   "search",
                                   "query",
                                   "now",
                                   "=",
                                   ":",
                                   "\"a\"",
                                   "true",
                                   "None",
                                   "1",
                                   "-",
                                   "\\u",
                                   "d83d",
                                   "<|\"|>",
                                   "final",
                                   "analysis",
                                   " to=functions.now",
                                   "\xE6\x9D\xB1",
                                   "\xFF",
                                   "<",
                                   "\x01",
                                   "[now(",
                                   "now()",
                                   "{}",
                                   "\n\n",
                                   ";",
                                   "<|"}) {
      fragments_.emplace_back(text);
    }
  }

  std::vector<Piece> Make() {
    std::vector<Piece> pieces;
    const size_t n = random_() % 25;
    for (size_t i = 0; i < n; ++i) {
      const std::string& fragment = fragments_[random_() % fragments_.size()];
      const bool is_cut = random_() % 8 == 0;
      const size_t length = is_cut ? random_() % (fragment.size() + 1) : fragment.size();
      pieces.push_back({fragment.substr(0, length), false});
    }
    return pieces;
  }

  std::vector<Piece> CutAgain(const std::vector<Piece>& pieces) {
    std::vector<Piece> cut(1);
    for (const Piece& piece : pieces) {
      for (const char c : piece.text) {
        if (random_() % 3 == 0) cut.emplace_back();
        cut.back().text.push_back(c);
      }
    }
    return cut;
  }

 private:
  std::mt19937 random_;
  std::vector<std::string> fragments_;
};

std::string JoinPieces(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

class OutputPropertyTest : public testing::TestWithParam<std::string> {
 protected:
  const OutputFormat& format() const { return **FindOutputFormat(GetParam()); }
};

OutputParser::Options SomeOptions(int round) {
  return {.parse_calls = round % 5 != 0,
          .split_reasoning = round % 7 != 0,
          .begins_in_reasoning = round % 3 == 0};
}

TEST_P(OutputPropertyTest, PartsDoNotDependOnTheCuts) {
  OutputMaker maker(format(), 1);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    const std::vector<Piece> pieces = maker.Make();
    const Parsed whole = Parse(format(), CutAt(JoinPieces(pieces), {}), SomeOptions(round));
    EXPECT_EQ(Parse(format(), maker.CutAgain(pieces), SomeOptions(round)), whole)
        << JoinPieces(pieces) << "\n"
        << Describe(whole.parts);
    EXPECT_EQ(Parse(format(), EachByte(JoinPieces(pieces)), SomeOptions(round)), whole)
        << JoinPieces(pieces);
  }
}

TEST_P(OutputPropertyTest, WholeCallsAreObjectsAndAllTextIsUtf8) {
  OutputMaker maker(format(), 2);
  size_t num_calls = 0;  // whole ones are rare
  for (int round = 0; round < kManyRounds && !HasFailure(); ++round) {
    const std::vector<Piece> pieces = maker.Make();
    const Parsed parsed = Parse(format(), pieces, SomeOptions(round));
    std::string arguments;
    for (const OutputPart& part : parsed.parts) {
      EXPECT_FALSE(FindInvalidUtf8(part.text));
      if (part.kind == OutputPart::Kind::kCallBegin) arguments.clear();
      if (part.kind == OutputPart::Kind::kCallArguments) arguments += part.text;
      if (part.kind != OutputPart::Kind::kCallEnd) continue;
      ++num_calls;
      const auto json = nlohmann::json::parse(arguments, nullptr, false);
      EXPECT_TRUE(json.is_object()) << arguments << "\nin " << JoinPieces(pieces);
    }
  }
  EXPECT_EQ(num_calls > 0, HasCalls(format()));
}

// Without a call, all of the output comes out. (Harmony's headers do not, so it is left out.)
TEST_P(OutputPropertyTest, NothingIsLostWithoutCalls) {
  if (format().style == CallStyle::kHarmony) return;
  OutputMaker maker(format(), 3);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    const std::string output = JoinPieces(maker.Make());
    const Parsed parsed = Parse(format(), CutAt(output, {}), {.parse_calls = true});
    if (parsed.num_whole_calls + parsed.num_broken_calls > 0) continue;
    std::string said;
    for (const OutputPart& part : parsed.parts) said += part.text;
    std::string pending;
    std::string valid;
    AppendLossyUtf8(output, pending, valid);
    FlushLossyUtf8(pending, valid);
    EXPECT_EQ(said, valid);
  }
}

TEST_P(OutputPropertyTest, RandomBytes) {
  std::mt19937 random(4);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    std::string output;
    for (size_t n = random() % 60; n > 0; --n) output.push_back(static_cast<char>(random()));
    const Parsed whole = Parse(format(), CutAt(output, {}));
    EXPECT_EQ(Parse(format(), EachByte(output)), whole);
  }
}

// Four times the output costs about four times the time of the processor.
void ExpectLinear(const OutputFormat& format, const std::string& start, const std::string& unit) {
  const auto cost = [&](size_t num_units) {
    OutputParser parser(format, CaseTools(), kEverything);
    Parts parts;
    const absl::Duration begin = ProcessorTime();
    parser.Push(start, false, parts);
    for (size_t i = 0; i < num_units; ++i) parser.Push(unit, false, parts);
    parser.Finish(parts);
    return absl::ToDoubleSeconds(ProcessorTime() - begin);
  };
  const size_t num_units = size_t{100'000} / unit.size();
  const double small = cost(num_units) + 1e-3;
  EXPECT_LT(cost(num_units * 4), small * 12) << format.name << " " << start << unit;
}

TEST_P(OutputPropertyTest, TimeIsLinear) {
  const CallTags& tags = format().tags;
  const std::string open(tags.block_open.empty() ? tags.call_open : tags.block_open);
  ExpectLinear(format(), "", open.empty() ? "<" : open);
  ExpectLinear(format(), "", "<");
  ExpectLinear(format(), "", " ");
  ExpectLinear(format(), "", "[");
  ExpectLinear(format(), "", "word ");
  ExpectLinear(format(), open, "{\"a\": \"" + open);
  ExpectLinear(format(), open + "{\"name\": \"now\", \"arguments\": {\"a\": \"", "text " + open);
  ExpectLinear(format(),
               open + std::string(tags.call_open) + "search" + std::string(tags.name_end) +
                   std::string(tags.key_open) + "query" + std::string(tags.key_end) +
                   std::string(tags.value_open),
               "text < ");
}

// What waits has a bound: a call that never begins comes out in time.
TEST_P(OutputPropertyTest, WhatWaitsIsBounded) {
  const CallTags& tags = format().tags;
  const std::string open(tags.block_open.empty() ? tags.call_open : tags.block_open);
  OutputParser parser(format(), CaseTools(), kEverything);
  Parts parts;
  parser.Push(open + "{\"arguments\": {\"a\": \"", false, parts);
  const std::string unit(1000, 'x');
  for (size_t sent = 0; sent <= kMaxHeldBytes; sent += unit.size()) parser.Push(unit, false, parts);
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(parts[0].kind, OutputPart::Kind::kContent);
  EXPECT_EQ(parts[0].text.substr(0, open.size()), open);
}

INSTANTIATE_TEST_SUITE_P(All, OutputPropertyTest, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const OutputFormat& format : OutputFormats()) {
                             names.emplace_back(format.name);
                           }
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lockstep::router
