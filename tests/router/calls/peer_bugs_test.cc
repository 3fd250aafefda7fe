// Mistakes that parsers of other servers made, each with its number there. V: vllm-project/vllm,
// G: sgl-project/sglang, L: ggml-org/llama.cpp, Dynamo: ai-dynamo/dynamo.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "router/calls/output_format_table.h"
#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

Parts PushAll(OutputParser& parser, const std::vector<std::string>& texts) {
  Parts parts;
  for (const std::string& text : texts) parser.Push(text, false, parts);
  return parts;
}

const OutputFormat& Format(std::string_view name) { return **FindOutputFormat(name); }

TEST(PeerBugsTest, AMarkerSplitOverDeltasDoesNotLeak_V57490_Dynamo10569) {
  for (const std::string_view name : {"hermes", "qwen3_coder", "glm47"}) {
    OutputParser parser(Format(name), CaseTools(), kEverything);
    EXPECT_EQ(PushAll(parser, {"Hi", "<", "tool", "_call", ">"}), Content("Hi")) << name;
  }
  OutputParser thinker(Format("hermes"), CaseTools(), kEverything);
  EXPECT_EQ(PushAll(thinker, {"<thi", "nk>", "A", "</th", "ink", ">", "B"}),
            Reasoning("A") + Content("B"));
}

TEST(PeerBugsTest, ACallInOneDeltaKeepsItsArguments_V39615) {
  for (const OutputCase& item : AllCases()) {
    if (item.expected.empty() || item.expected.back().kind != OutputPart::Kind::kCallEnd) continue;
    Parts parts;
    OutputParser::Options options = kEverything;
    options.begins_in_reasoning = item.begins_in_reasoning;
    OutputParser parser(Format(item.format), CaseTools(), options);
    parser.Push(item.output, false, parts);
    parser.Finish(parts);
    EXPECT_EQ(parts, item.expected) << item.format << " " << item.name;
  }
}

TEST(PeerBugsTest, TheEndAddsNoArgumentsTwice_V51697) {
  OutputParser parser(Format("hermes"), CaseTools(), kEverything);
  PushAll(parser, {R"(<tool_call>{"name": "now", "arguments": {"a": 1}})"});
  Parts parts;
  parser.Finish(parts);
  EXPECT_EQ(parts, Parts());
  EXPECT_EQ(parser.num_whole_calls(), 1U);
}

TEST(PeerBugsTest, TheSecondCallIsNotDropped_G37634) {
  // Both calls, and the end of the first with the begin of the second, in one delta.
  OutputParser parser(Format("hermes"), CaseTools(), kEverything);
  const Parts parts = PushAll(
      parser,
      {"<tool_call>{\"name\": \"now\", \"arguments\": {",
       "}}</tool_call>\n<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"a\"}}",
       "</tool_call>"});
  EXPECT_EQ(parser.num_whole_calls(), 2U);
  EXPECT_EQ(parts.back().kind, OutputPart::Kind::kCallEnd);
}

TEST(PeerBugsTest, NoRandomSplitLosesData_G31915) {
  std::mt19937 random(31915);
  for (const OutputCase& item : AllCases()) {
    OutputParser::Options options = kEverything;
    options.begins_in_reasoning = item.begins_in_reasoning;
    const Parsed whole = Parse(Format(item.format), CutAt(item.output, {}), options);
    for (int round = 0; round < 20; ++round) {
      std::vector<Piece> pieces;
      for (const char c : item.output) {
        if (pieces.empty() || random() % 4 == 0) pieces.emplace_back();
        pieces.back().text.push_back(c);
      }
      EXPECT_EQ(Parse(Format(item.format), pieces, options), whole) << item.name;
    }
  }
}

TEST(PeerBugsTest, ThinkingOffLeavesTheAnswerContent_V53284) {
  const OutputFormat& format = Format("hermes");
  const std::string tail = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
  OutputParser::Options options = kEverything;
  options.begins_in_reasoning = LeavesReasoningOpen(format, tail);
  EXPECT_EQ(Parse(format, CutAt("The answer.", {}), options).parts, Content("The answer."));
}

TEST(PeerBugsTest, InvalidUtf8EndsNoStream_L27543) {
  for (const OutputFormat& format : OutputFormats()) {
    const Parsed parsed = Parse(format.name, "\xC3(\xFF {\"a\xED\xA0\x80");
    std::string text;
    for (const OutputPart& part : parsed.parts) text += part.text;
    EXPECT_NE(text.find("\xEF\xBF\xBD("), std::string::npos) << format.name;
  }
}

TEST(PeerBugsTest, OneOddSchemaBreaksNoOtherTool_L25923) {
  const auto tools = ToolList::Parse(R"([
    {"type": "function", "function": {"name": "odd", "parameters": {"type": 7, "properties":
      {"a": {"$ref": "#/$defs/none"}, "b": 3, "c": {"anyOf": "x"}, "d": {"type": [null]}}}}},
    {"type": "function", "function": {"name": "even", "parameters": {"properties":
      {"a": {"type": "string"}}}}}])");
  ASSERT_TRUE(tools.ok()) << tools.status();
  EXPECT_TRUE(tools->Has("odd"));
  EXPECT_EQ(tools->TypesOf("even", "a"), std::vector<std::string>{"string"});
}

TEST(PeerBugsTest, ACallThatIsCutOffIsNoWholeCall_V53269) {
  const Parsed parsed = Parse("hermes", R"(<tool_call>{"name": "now", "arguments": {"a": "b)");
  EXPECT_EQ(parsed.num_whole_calls, 0U);
  EXPECT_EQ(parsed.num_broken_calls, 1U);
}

TEST(PeerBugsTest, TextBehindACallIsNoArgument_G24293) {
  const Parsed parsed =
      Parse("qwen3_coder", "<tool_call><function=now></function></tool_call>\nI called it.");
  EXPECT_EQ(parsed.parts, Call("now", "{}") + Content("I called it."));
}

}  // namespace
}  // namespace lockstep::router
