// What grammars of calls do not have: too many bytes, marks of other grammars, and long names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "router/calls/grammar/call_grammar.h"
#include "tests/common/status_matchers.h"
#include "tests/router/calls/grammar/marker_tokenizer.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTooLarge[] = ": expected tools with a grammar of at most 262144 bytes";

// A list of one tool.
std::string OnlyTool(const std::string& parameters) {
  return R"([{"type": "function", "function": {"name": "f", "parameters": )" + parameters + "}}]";
}

absl::StatusOr<std::string> GrammarOf(const std::string& format, const std::string& tools) {
  return CallGrammar(**FindOutputFormat(format), CallableTools(tools, ""), *ToolList::Parse(tools),
                     {}, *MarkerTokenizer({}));
}

// The engine would refuse a text with these marks.
TEST(CallGrammarBoundsTest, NoTextHasMarksOfOtherGrammars) {
  EXPECT_THAT(
      *GrammarOf("hermes", OnlyTool(R"({"properties": {"a": {"const": "a ::=::= b:::="}}})")),
      HasSubstr(R"("a \u003a:=\u003a:= b:\u003a:=")"));
  // The marks together are within the bound, and what replaces them is not.
  std::string marks;
  for (int i = 0; i < 80'000; ++i) marks += "::=";
  EXPECT_THAT(GrammarOf("hermes", OnlyTool(R"({"const": ")" + marks + "\"}")),
              HasError(absl::StatusCode::kInvalidArgument, StartsWith(kTooLarge)));
}

TEST(CallGrammarBoundsTest, NamesThatTheParserCannotReadAreRefused) {
  const std::string parameters = R"({"properties": {")" + std::string(257, 'a') + R"(": {}}})";
  EXPECT_THAT(GrammarOf("pythonic", OnlyTool(parameters)),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("or longer than 256 bytes")));
  EXPECT_THAT(GrammarOf("glm47", OnlyTool(parameters)),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("the name cannot be written")));
}

// Definitions are repeated for each property that refers to them.
TEST(CallGrammarBoundsTest, AGrammarHasABound) {
  std::string properties;
  for (int i = 0; i < 100; ++i) {
    properties += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(": {"$ref": "#/$defs/A"})";
  }
  const std::string parameters = R"({"properties": {)" + properties +
                                 R"(}, "$defs": {"A": {"type": "integer", "required": [")" +
                                 std::string(100'000, 'x') + R"("]}}})";
  // No tool is at fault alone, or all are.
  EXPECT_THAT(GrammarOf("glm47", OnlyTool(parameters)),
              HasError(absl::StatusCode::kInvalidArgument, StartsWith(kTooLarge)));
  EXPECT_THAT(GrammarOf("hermes", OnlyTool(parameters)), IsOk());
}

// A schema that many alternatives refer to is written once, and without its annotations.
TEST(CallGrammarBoundsTest, RepeatedReferencesAreOneAlternative) {
  std::string zeros = "0";
  for (int i = 1; i < 100'000; ++i) zeros += ",0";
  const auto references = [](const std::string& name, int count) {
    std::string all = R"({"anyOf": [{"$ref": "#/$defs/)" + name + "\"}";
    for (int i = 1; i < count; ++i) all += R"(, {"$ref": "#/$defs/)" + name + "\"}";
    return all + "]}";
  };
  for (const std::string annotation : {"examples", "x-notes"}) {
    const std::string parameters =
        R"({"properties": {"p": {"$ref": "#/$defs/z"}}, "$defs": {"x": {"type": ["string",
        "integer", "number", "boolean", "null", "object", "array"], "maxItems": 3, ")" +
        annotation + "\": [" + zeros + R"(]}, "y": )" + references("x", 100) + R"(, "z": )" +
        references("y", 4) + "}}";
    for (const char* const format : {"qwen3_coder", "glm47", "minimax_m2", "deepseek_v32"}) {
      const absl::StatusOr<std::string> grammar = GrammarOf(format, OnlyTool(parameters));
      ASSERT_THAT(grammar, IsOk());
      EXPECT_LT(grammar->size(), 4000u);
    }
  }
}

}  // namespace
}  // namespace lockstep::router
