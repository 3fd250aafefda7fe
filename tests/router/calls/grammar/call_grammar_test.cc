#include "router/calls/grammar/call_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "router/calls/output_format_table.h"
#include "tests/common/status_matchers.h"
#include "tests/router/calls/grammar/marker_tokenizer.h"

namespace lockstep::router {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Reasoning = CallGrammarOptions::Reasoning;

constexpr char kTools[] = R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}, "required": ["s"]}}},
  {"type": "function", "function": {"name": "g", "parameters": null}}])";

// A list of one tool.
std::string Tool(const std::string& parameters) {
  return R"([{"type": "function", "function": {"name": "f", "parameters": )" + parameters + "}}]";
}

// Behind another tool, which has no parameters.
std::string OneTool(const std::string& parameters) {
  return R"([{"type": "function", "function": {"name": "a"}}, {"type": "function", "function":
      {"name": "f", "parameters": )" +
         parameters + "}}]";
}

class CallGrammarTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Write(const std::string& format, const CallGrammarOptions& options,
                                    const std::string& tools = kTools,
                                    const std::string& name = "") const {
    return CallGrammar(**FindOutputFormat(format), CallableTools(tools, name),
                       *ToolList::Parse(tools), options, *tokenizer_);
  }
  // The lines of a grammar that are about calls, with "J" for each JSON schema and "T" for each
  // text that excludes a marker.
  std::string Lines(const std::string& format, const CallGrammarOptions& options = {}) const {
    const absl::StatusOr<std::string> grammar = Write(format, options);
    EXPECT_TRUE(grammar.ok()) << grammar.status();
    std::string lines;
    std::string rest = grammar.value_or("");
    while (!rest.empty()) {
      std::string line = rest.substr(0, rest.find('\n') + 1);
      rest.erase(0, line.size());
      if (line.starts_with("gap:") || line.starts_with("line:")) continue;
      if (const size_t at = line.find("%json "); at != std::string::npos) {
        line = line.substr(0, at) + "J\n";
      }
      for (size_t at = line.find("(~("); at != std::string::npos; at = line.find("(~(")) {
        const size_t end = line.find("& /(?s:.*)/)", at);
        line.replace(at, end + 12 - at, "T");
      }
      lines += line;
    }
    return lines;
  }

  std::unique_ptr<const Tokenizer> tokenizer_ = MarkerTokenizer({});
};

struct FormatCase {
  const char* format;
  const char* lines;
};

constexpr FormatCase kFormatCases[] = {
    {"harmony",
     R"lark(start: call
arguments_0: J
call_0: "<|channel|>commentary to=functions.f <|constrain|>json<|message|>" arguments_0
arguments_1: J
call_1: "<|channel|>commentary to=functions.g <|constrain|>json<|message|>" arguments_1
call: call_0 | call_1
)lark"},
    {"deepseek_v32",
     R"lark(start: gap? block (gap? block)* gap?
TEXT_0_0: ((T)) "</｜DSML｜parameter>"
parameter_0_0: line? "<｜DSML｜parameter name=\"s\" string=\"" ("true\">" TEXT_0_0)
value_0_1: J
parameter_0_1: line? "<｜DSML｜parameter name=\"n\" string=\"" ("false\">" value_0_1)lark"
     R"lark( "</｜DSML｜parameter>")
call_0: "<｜DSML｜invoke name=\"f\">" parameter_0_0 parameter_0_1? line? "</｜DSML｜invoke>"
call_1: "<｜DSML｜invoke name=\"g\">" line? "</｜DSML｜invoke>"
call: call_0 | call_1
block: "<｜DSML｜function_calls>" line? call (line? call)* line? "</｜DSML｜function_calls>"
)lark"},
    {"deepseek_v3",
     R"lark(start: gap? block (gap? block)* gap?
arguments_0: J
call_0: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n" arguments_0 "\n```<｜tool▁call▁end｜>"
arguments_1: J
call_1: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n" arguments_1 "\n```<｜tool▁call▁end｜>"
call: call_0 | call_1
block: "<｜tool▁calls▁begin｜>" line? call (line? call)* line? "<｜tool▁calls▁end｜>"
)lark"},
    {"deepseek_v31",
     R"lark(start: gap? block (gap? block)* gap?
arguments_0: J
call_0: "<｜tool▁call▁begin｜>f<｜tool▁sep｜>" arguments_0 "<｜tool▁call▁end｜>"
arguments_1: J
call_1: "<｜tool▁call▁begin｜>g<｜tool▁sep｜>" arguments_1 "<｜tool▁call▁end｜>"
call: call_0 | call_1
block: "<｜tool▁calls▁begin｜>" line? call (line? call)* line? "<｜tool▁calls▁end｜>"
)lark"},
    {"kimi_k2",
     R"lark(start: gap? block (gap? block)* gap?
number: /[0-9]{1,3}/
arguments_0: J
call_0: "<|tool_call_begin|>functions.f:" number "<|tool_call_argument_begin|>" arguments_0)lark"
     R"lark( "<|tool_call_end|>"
arguments_1: J
call_1: "<|tool_call_begin|>functions.g:" number "<|tool_call_argument_begin|>" arguments_1)lark"
     R"lark( "<|tool_call_end|>"
call: call_0 | call_1
block: "<|tool_calls_section_begin|>" line? call (line? call)* line? "<|tool_calls_section_end|>"
)lark"},
    {"glm47",
     R"lark(start: gap? call (gap? call)* gap?
TEXT_0_0: ((T)) "</arg_value>"
parameter_0_0: line? "<arg_key>s</arg_key>" line? "<arg_value>" (TEXT_0_0)
value_0_1: J
parameter_0_1: line? "<arg_key>n</arg_key>" line? "<arg_value>" (value_0_1 "</arg_value>")
call_0: "<tool_call>f" parameter_0_0 parameter_0_1? line? "</tool_call>"
call_1: "<tool_call>g" line? "</tool_call>"
call: call_0 | call_1
)lark"},
    {"minimax_m2",
     R"lark(start: gap? block (gap? block)* gap?
TEXT_0_0: ((T)) "</parameter>"
parameter_0_0: line? "<parameter name=\"s\">" (TEXT_0_0)
value_0_1: J
parameter_0_1: line? "<parameter name=\"n\">" (value_0_1 "</parameter>")
call_0: "<invoke name=\"f\">" parameter_0_0 parameter_0_1? line? "</invoke>"
call_1: "<invoke name=\"g\">" line? "</invoke>"
call: call_0 | call_1
block: "<minimax:tool_call>" line? call (line? call)* line? "</minimax:tool_call>"
)lark"},
    {"qwen3_coder",
     R"lark(start: gap? block (gap? block)* gap?
BODY_0_0: ((T))
TEXT_0_0: (BODY_0_0 "\n" | (BODY_0_0 & ~/(?s:.*)\n/)) "</parameter>"
parameter_0_0: line? "<parameter=s>" "\n" (TEXT_0_0)
value_0_1: J
parameter_0_1: line? "<parameter=n>" "\n" (value_0_1 "\n</parameter>")
call_0: "<function=f>" parameter_0_0 parameter_0_1? line? "</function>"
call_1: "<function=g>" line? "</function>"
call: call_0 | call_1
block: "<tool_call>" line? call (line? call)* line? "</tool_call>"
)lark"},
    {"mistral",
     R"lark(start: gap? "[TOOL_CALLS][" call (", " call)* "]" gap?
arguments_0: J
call_0: "{\"name\": \"f\", \"arguments\": " arguments_0 "}"
arguments_1: J
call_1: "{\"name\": \"g\", \"arguments\": " arguments_1 "}"
call: call_0 | call_1
)lark"},
    {"hermes",
     R"lark(start: gap? block (gap? block)* gap?
arguments_0: J
call_0: "{\"name\": \"f\", \"arguments\": " arguments_0 "}"
arguments_1: J
call_1: "{\"name\": \"g\", \"arguments\": " arguments_1 "}"
call: call_0 | call_1
block: "<tool_call>" line? call line? "</tool_call>"
)lark"},
    {"pythonic",
     R"lark(start: gap? (calls | block) gap?
value_0_0: J
keywords_0_0: "s=" value_0_0 more_0_1
more_0_0: ", s=" value_0_0 more_0_1
value_0_1: J
keywords_0_1: "n=" value_0_1 | ""
more_0_1: ", n=" value_0_1 | ""
call_0: "f(" keywords_0_0 ")"
call_1: "g()"
call: call_0 | call_1
calls: "[" call (", " call)* "]"
block: "<|python_start|>" calls "<|python_end|>"
)lark"},
    {"llama3",
     R"lark(start: gap? (calls | block) gap?
arguments_0: J
call_0: "{\"name\": \"f\", \"parameters\": " arguments_0 "}"
arguments_1: J
call_1: "{\"name\": \"g\", \"parameters\": " arguments_1 "}"
call: call_0 | call_1
calls: call ("; " call)*
block: "<|python_tag|>" calls
)lark"},
    {"llama4",
     R"lark(start: gap? (calls | block) gap?
arguments_0: J
call_0: "{\"name\": \"f\", \"parameters\": " arguments_0 "}"
arguments_1: J
call_1: "{\"name\": \"g\", \"parameters\": " arguments_1 "}"
call: call_0 | call_1
calls: call ("; " call)*
block: "<|python_start|>" calls "<|python_end|>"
)lark"},
};

TEST_F(CallGrammarTest, EveryFormatHasItsWay) {
  size_t num_formats = 0;
  for (const OutputFormat& format : OutputFormats()) num_formats += CanForceCalls(format) ? 1 : 0;
  EXPECT_EQ(std::size(kFormatCases), num_formats);
  for (const FormatCase& entry : kFormatCases)
    EXPECT_EQ(Lines(entry.format), entry.lines) << entry.format;
}

TEST_F(CallGrammarTest, SomeFormatsHaveNoGrammar) {
  EXPECT_FALSE(CanForceCalls(**FindOutputFormat("gemma4")));
  EXPECT_FALSE(CanForceCalls(**FindOutputFormat("think")));
}

TEST_F(CallGrammarTest, OneCallIsOneCall) {
  const CallGrammarOptions single{.single = true};
  EXPECT_THAT(Lines("hermes", single), StartsWith("start: gap? block\n"));
  EXPECT_THAT(Lines("deepseek_v3", single),
              HasSubstr("block: \"<｜tool▁calls▁begin｜>\" line? call line? "));
  EXPECT_THAT(Lines("glm47", single), StartsWith("start: gap? call\n"));
  EXPECT_THAT(Lines("mistral", single), StartsWith("start: gap? \"[TOOL_CALLS][\" call \"]\"\n"));
  EXPECT_THAT(Lines("llama3", single), HasSubstr("calls: call\n"));
  EXPECT_THAT(Lines("pythonic", single), HasSubstr("calls: \"[\" call \"]\"\n"));
}

TEST_F(CallGrammarTest, ReasoningComesBeforeTheCalls) {
  const CallGrammarOptions may{.reasoning = Reasoning::kOptional};
  EXPECT_THAT(
      Lines("hermes", may),
      StartsWith("start: gap? reasoning? block (gap? block)* gap?\nTHOUGHTS: T \"</think>\"\n"
                 "reasoning: \"<think>\" THOUGHTS gap?\n"));
  const CallGrammarOptions goes_on{.reasoning = Reasoning::kOpen};
  EXPECT_THAT(Lines("hermes", goes_on),
              StartsWith("start: reasoning block (gap? block)* gap?\nTHOUGHTS: T \"</think>\"\n"
                         "reasoning: THOUGHTS gap?\n"));
  EXPECT_THAT(Lines("harmony", may),
              HasSubstr("THOUGHTS: T \"<|end|>\"\nreasoning: \"<|channel|>analysis<|message|>\" "
                        "THOUGHTS \"<|start|>assistant\"\n"));
  // It spells no marker that the parser would take for a call.
  const std::string whole = *Write("hermes", may);
  EXPECT_THAT(whole, HasSubstr("(\"<think>\" | \"</think>\" | \"<tool_call>\")"));
  // A format that never reasons.
  EXPECT_THAT(Lines("llama3", may), StartsWith("start: gap? (calls | block) gap?\n"));
}

TEST_F(CallGrammarTest, TheVocabularyDecidesWhatIsASpecialToken) {
  tokenizer_ = MarkerTokenizer({"<tool_call>", "</think>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"});
  const auto id = [&](std::string_view token) {
    return "<[" + std::to_string(*tokenizer_->FindToken(token)) + "]>";
  };
  EXPECT_THAT(Lines("hermes", {.reasoning = Reasoning::kOpen}),
              HasSubstr("THOUGHTS: T\nreasoning: THOUGHTS " + id("</think>") + " gap?\n"));
  EXPECT_THAT(Lines("hermes"),
              EndsWith("block: " + id("<tool_call>") + " line? call line? \"</tool_call>\"\n"));
  // Mistral's newer vocabularies have a token behind the name.
  EXPECT_THAT(Lines("mistral"),
              StartsWith("start: gap? call (gap? call)* gap?\ncall_id: " + id("[CALL_ID]") +
                         " /[a-zA-Z0-9]{9}/\narguments_0: J\ncall_0: " + id("[TOOL_CALLS]") +
                         " \"f\" call_id? " + id("[ARGS]") + " arguments_0\n"));
}

TEST_F(CallGrammarTest, ANamedToolIsTheOnlyOne) {
  const std::vector<CallableTool> tools = CallableTools(kTools, "g");
  ASSERT_EQ(tools.size(), 1u);
  EXPECT_EQ(tools[0].index, 1u);
  EXPECT_EQ(tools[0].name, "g");
  EXPECT_EQ(tools[0].parameters, "");
  EXPECT_EQ(CallableTools(kTools, "").size(), 2u);
  const std::string grammar = *Write("hermes", {}, kTools, "g");
  EXPECT_THAT(grammar, HasSubstr("\"{\\\"name\\\": \\\"g\\\""));
  EXPECT_THAT(grammar, Not(HasSubstr("\\\"f\\\"")));
}

TEST_F(CallGrammarTest, SchemasAreWholeAndInTheirOrder) {
  EXPECT_THAT(*Write("hermes", {}),
              HasSubstr(R"(%json {"type":"object","properties":{"s":{"type":"string"},"n":{"type":)"
                        R"("integer"}},"required":["s"],"x-guidance":)"));
  // Prose fills no grammar. Its words are names of properties, too.
  const std::string parameters = R"({"title": "T", "properties": {"title": {"description": "D",
      "examples": [1], "default": 2, "type": "integer"}}})";
  EXPECT_THAT(*Write("hermes", {}, Tool(parameters)),
              HasSubstr(R"(%json {"properties":{"title":{"type":"integer"}},"type":)"));
}

struct BadTool {
  const char* format;
  const char* parameters;
  absl::StatusCode code;
  const char* words;
};

TEST_F(CallGrammarTest, ToolsThatCannotBeForcedAreNamed) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnserved = absl::StatusCode::kUnimplemented;
  const BadTool cases[] = {
      {"hermes", R"({"type": "array"})", kInvalid, "type: expected \"object\", got \"array\""},
      {"qwen3_coder", R"({"minProperties": 1})", kUnserved, "minProperties beside the properties"},
      {"qwen3_coder", R"({"properties": {"s": {"type": "string", "pattern": "a"}}})", kUnserved,
       "property \"s\": pattern of a string is not implemented"},
      {"qwen3_coder", R"({"properties": {"a<b": {}}})", kUnserved,
       "property \"a<b\": the name cannot be written"},
      {"glm47", R"({"properties": {"s": {"const": "a</arg_value>"}}})", kUnserved,
       "property \"s\": no value can be written"},
      {"pythonic", R"({"properties": {"a-b": {}}})", kUnserved,
       "property \"a-b\": the name is no keyword of Python"},
      {"deepseek_v32", R"({"properties": {"x\" string=": {}}})", kUnserved,
       R"(property "x" string=": the name cannot be written)"},
      {"glm47",
       R"({"properties": {"b": {"anyOf": [{"type": "string"},
           {"type": "boolean", "not": {"const": true}}]}}})",
       kUnserved, "property \"b\": not of a boolean beside strings is not implemented"},
      {"pythonic", R"({"properties": {"a": {"$ref": "#"}}})", kUnserved,
       "property \"a\": expected a $ref of #/$defs/"},
  };
  for (const BadTool& entry : cases) {
    EXPECT_THAT(
        Write(entry.format, {}, OneTool(entry.parameters)),
        HasError(entry.code, StartsWith("[1].function.parameters: " + std::string(entry.words))))
        << entry.parameters;
    // It does not matter where it cannot be called.
    EXPECT_THAT(Write(entry.format, {}, OneTool(entry.parameters), "a"), IsOk());
  }
}

// The parser decides what a text is, so a text may not look like another value.
TEST_F(CallGrammarTest, TextsBesideOtherValuesLookLikeNone) {
  const auto text = [&](const std::string& format, const std::string& property) {
    const absl::StatusOr<std::string> grammar =
        Write(format, {}, OneTool(R"({"properties": {"p": )" + property + "}}"));
    EXPECT_THAT(grammar, IsOk());
    const std::string all = grammar.value_or("");
    const size_t at = all.find("TEXT_1_0: ");
    return at == std::string::npos ? all : all.substr(at, all.find('\n', at) - at);
  };
  EXPECT_THAT(text("glm47", R"({"type": ["string", "null"]})"),
              StartsWith(R"(TEXT_1_0: ("null" | (()"));
  EXPECT_THAT(text("glm47", R"({"type": ["string", "null"]})"),
              HasSubstr("& ~(/[ \\t\\r\\n]*(null|None)"));
  EXPECT_THAT(text("glm47", R"({"type": "string"})"), Not(HasSubstr("None")));
  EXPECT_THAT(text("glm47", R"({"type": ["string", "integer"]})"),
              HasSubstr("(/-?(0|[1-9][0-9]*)/ | "));
  EXPECT_THAT(
      text("glm47", R"({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]})"),
      HasSubstr("[0-9\\-](?s:.*)/"));
  // A number that a rule describes, and single numbers: all are in the rule.
  EXPECT_THAT(text("glm47", R"({"anyOf": [{"enum": ["x", 1, null]}, {"type": "integer",
                                          "minimum": 3}]})"),
              HasSubstr(R"lark(TEXT_1_0: ("null" | "x") "</arg_value>")lark"));
  EXPECT_EQ(text("glm47", R"({"enum": ["x", "true", "5", true]})"),
            R"(TEXT_1_0: ("true" | "x" | "5") "</arg_value>")");
  EXPECT_THAT(text("glm47", R"({"type": "string", "minLength": 2, "maxLength": 9000000})"),
              HasSubstr("& /(?s:.{2,1000000})/"));
  // Where the format marks strings, every text is one.
  EXPECT_THAT(text("deepseek_v32", R"({"type": ["string", "null"]})"), Not(HasSubstr("None")));
}

}  // namespace
}  // namespace lockstep::router
