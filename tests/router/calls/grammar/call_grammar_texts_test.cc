// Certain outputs under the grammars of forced calls: the constraint engine allows what models and
// their templates write, and the parser reads in it what the schemas mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "router/calls/grammar/call_grammar.h"
#include "router/calls/output_format_table.h"
#include "tests/common/constraints/test_engine.h"
#include "tests/router/calls/grammar/marker_tokenizer.h"
#include "tests/router/calls/output_cases.h"

namespace lockstep::router {
namespace {

using nlohmann::json;
using Reasoning = CallGrammarOptions::Reasoning;

class CallGrammarTextsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE();
    engine_ = lockstep::testing::StartTestEngine();
  }

  // "ok", or the text before the first byte that is not allowed. No marker is a special token.
  std::string Walk(std::string_view format, std::string_view tools,
                   const CallGrammarOptions& options, std::string_view output) {
    const absl::StatusOr<std::string> grammar =
        CallGrammar(**FindOutputFormat(format), CallableTools(tools, ""), *ToolList::Parse(tools),
                    options, *tokenizer_);
    EXPECT_TRUE(grammar.ok()) << grammar.status();
    const Constraint constraint{.kind = ConstraintKind::kGrammar, .text = grammar.value_or("")};
    return lockstep::testing::Walk(*engine_, constraint, output);
  }

  std::unique_ptr<CagedConstraintEngine> engine_;
  const std::unique_ptr<const Tokenizer> tokenizer_ = MarkerTokenizer({});
};

// Reasoning, then calls, and nothing else.
bool IsForced(const Parts& parts) {
  const bool has_calls = std::ranges::any_of(
      parts, [](const OutputPart& part) { return part.kind == OutputPart::Kind::kCallEnd; });
  return has_calls && std::ranges::none_of(parts, [](const OutputPart& part) {
           return part.kind == OutputPart::Kind::kContent ||
                  part.kind == OutputPart::Kind::kCallBroken;
         });
}

// The parser reads many spellings. The grammars allow those that the formats' templates write.
TEST_F(CallGrammarTextsTest, OutputsThatTemplatesWriteAreAllowed) {
  std::set<std::string> allowed;
  for (const OutputCase& item : AllCases()) {
    const OutputFormat& format = **FindOutputFormat(item.format);
    if (!CanForceCalls(format) || !IsForced(item.expected)) continue;
    const Reasoning reasoning = item.begins_in_reasoning ? Reasoning::kOpen : Reasoning::kOptional;
    const std::string result =
        Walk(item.format, CaseToolsJson(), {.reasoning = reasoning}, item.output);
    if (result == "ok") allowed.insert(item.format + " " + item.name);
  }
  const std::set<std::string> expected = {"deepseek_v3 FenceInAString",
                                          "glm47 NoArguments",
                                          "glm47 OneCall",
                                          "glm47 StringsKeepTheirLines",
                                          "glm47 ThinkingBefore",
                                          "hermes MarkersInStrings",
                                          "hermes NestedArguments",
                                          "hermes OneCall",
                                          "hermes TwoCalls",
                                          "llama3 OneCall",
                                          "llama3 PythonTag",
                                          "llama4 Message",
                                          "minimax_m2 OneCall",
                                          "mistral List",
                                          "pythonic BracketsInStrings",
                                          "pythonic OneCall",
                                          "pythonic Unicode",
                                          "qwen3_coder EmptyString",
                                          "qwen3_coder MarkersInStrings",
                                          "qwen3_coder NoArguments",
                                          "qwen3_coder OneCall",
                                          "qwen3_coder StringsAreRaw",
                                          "qwen3_coder ThinkingBefore",
                                          "qwen3_coder TwoFunctionsInOneTag"};
  EXPECT_EQ(allowed, expected);
}

struct SpacedCase {
  const char* format;
  Reasoning reasoning;
  const char* output;
};

// White space as templates write it.
TEST_F(CallGrammarTextsTest, NewLinesOfTemplatesAreAllowed) {
  constexpr char kTools[] = R"([{"type": "function", "function": {"name": "now"}}])";
  const SpacedCase cases[] = {
      {"glm47", Reasoning::kOptional, "\n<think>a</think>\n<tool_call>now\n</tool_call>"},
      {"glm47", Reasoning::kNone, "\n<tool_call>now</tool_call>\n<tool_call>now</tool_call>\n"},
      {"deepseek_v32", Reasoning::kNone,
       "\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n"
       "</｜DSML｜function_calls>"},
      {"minimax_m2", Reasoning::kOpen,
       "a\n</think>\n\n\n<minimax:tool_call>\n<invoke name=\"now\">\n</invoke>\n"
       "</minimax:tool_call>\n"},
      {"hermes", Reasoning::kOpen,
       "a\n</think>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n"},
      {"llama3", Reasoning::kNone, "\n\n{\"name\": \"now\", \"parameters\": {}}\n"},
      {"pythonic", Reasoning::kNone, "\n[now()]\n"},
  };
  for (const SpacedCase& entry : cases) {
    EXPECT_EQ(Walk(entry.format, kTools, {.reasoning = entry.reasoning}, entry.output), "ok")
        << entry.format;
    const Parsed parsed = Parse(entry.format, entry.output,
                                {.parse_calls = true,
                                 .split_reasoning = true,
                                 .begins_in_reasoning = entry.reasoning == Reasoning::kOpen});
    EXPECT_TRUE(IsForced(parsed.parts)) << Describe(parsed.parts);
  }
}

struct ValueCase {
  std::string schema;
  std::string text;
  std::string json;  // that the parser reads; empty: the text is not allowed
};

std::vector<ValueCase> ValueCases() {
  const std::string mixed =
      R"({"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]})";
  const std::string values = R"({"anyOf": [{"type": "string"}, {"enum": [null, {}]}]})";
  const std::string range = R"({"oneOf": [{"type": "string"}, {"type": "null"},
      {"type": "integer", "minimum": 5}]})";
  json many = json::array();
  for (int i = 0; i < 250; ++i) many.push_back({{"const", "word" + std::to_string(i)}});
  many.push_back({{"const", 5}});
  const std::string constants = json({{"anyOf", many}}).dump();
  return {
      {mixed, "true", "true"},
      {mixed, "-1.5", "-1.5"},
      {mixed, "truest", R"("truest")"},
      {mixed, "None", R"("None")"},
      {values, "null", "null"},
      {values, "{}", "{}"},
      {values, "nullable", R"("nullable")"},
      {values, "x[", R"("x[")"},
      {range, "7", "7"},
      {range, "3", ""},
      {range, "null", "null"},
      {range, "true", R"("true")"},
      {constants, "word249", R"("word249")"},
      {constants, "5", "5"},
      {constants, "6", ""},
      {R"({"type": ["string", "integer"], "enum": ["a", 1.0]})", "1.0", "1.0"},
  };
}

// The parser decides what a text is, and the grammar must think the same.
TEST_F(CallGrammarTextsTest, TextsMeanTheValuesThatTheSchemaAllows) {
  for (const ValueCase& entry : ValueCases()) {
    SCOPED_TRACE(entry.schema.substr(0, 200) + " " + entry.text);
    const std::string tools =
        R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": {"p": )" +
        entry.schema + "}}}}]";
    for (const bool trims : {false, true}) {
      const std::string format = trims ? "qwen3_coder" : "glm47";
      const std::string output = trims ? "<tool_call><function=f><parameter=p>\n" + entry.text +
                                             "\n</parameter></function></tool_call>"
                                       : "<tool_call>f<arg_key>p</arg_key><arg_value>" +
                                             entry.text + "</arg_value></tool_call>";
      const std::string walked = Walk(format, tools, {.single = true}, output);
      if (entry.json.empty()) {
        EXPECT_NE(walked, "ok");
        continue;
      }
      EXPECT_EQ(walked, "ok");
      EXPECT_EQ(Parse(format, output, kEverything, *ToolList::Parse(tools)).parts,
                Call("f", R"({"p":)" + entry.json + "}"));
    }
  }
}

// The engine decides whether numbers of several members of oneOf differ. It knows no ranges.
TEST_F(CallGrammarTextsTest, NumbersOfSeveralMembersAreLeftToTheEngine) {
  constexpr char kTools[] = R"([{"type": "function", "function": {"name": "f", "parameters":
      {"properties": {"p": {"oneOf": [{"type": "string"}, {"type": "integer", "maximum": 2},
                                      {"type": "integer", "minimum": 5}]}}}}}])";
  EXPECT_THAT(Walk("glm47", kTools, {.single = true}, "<tool_call>f</tool_call>"),
              ::testing::HasSubstr("oneOf constraints are not supported"));
}

// A model may write the tag where the text ends, and the value may end with new lines of its own.
TEST_F(CallGrammarTextsTest, TheNewLineBeforeATagMayBeMissing) {
  constexpr char kTools[] = R"([{"type": "function", "function": {"name": "f", "parameters":
      {"properties": {"p": {"type": "string", "maxLength": 4}}}}}])";
  const std::pair<const char*, const char*> cases[] = {
      {"abc", R"("abc")"}, {"abcd\n", R"("abcd")"}, {"abc\n\n", R"("abc\n")"}, {"", R"("")"}};
  for (const auto& [text, value] : cases) {
    const std::string output = "<tool_call><function=f><parameter=p>\n" + std::string(text) +
                               "</parameter></function></tool_call>";
    EXPECT_EQ(Walk("qwen3_coder", kTools, {.single = true}, output), "ok");
    EXPECT_EQ(Parse("qwen3_coder", output, kEverything, *ToolList::Parse(kTools)).parts,
              Call("f", R"({"p":)" + std::string(value) + "}"));
  }
}

}  // namespace
}  // namespace lockstep::router
