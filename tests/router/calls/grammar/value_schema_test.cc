#include "router/calls/grammar/value_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

OrderedJson ArgumentsOf(const std::string& text) { return *ParseArgumentSchema(text); }

TEST(ValueSchemaTest, AValueTakesTheDefinitionsAlong) {
  const OrderedJson root =
      ArgumentsOf(R"({"$defs": {"A": {"type": "integer"}}, "properties": {}})");
  EXPECT_THAT(*ValueSchema(OrderedJson::parse(R"({"items": {"$ref": "#/$defs/A"}})"), root, ""),
              HasSubstr(R"("$defs":{"A":{"type":"integer"}})"));
  EXPECT_THAT(*ValueSchema(OrderedJson::parse(R"({"type": "null"})"), root, "</a>"),
              ::testing::Not(HasSubstr("$defs")));
  EXPECT_THAT(ValueSchema(OrderedJson::parse(R"({"$ref": "#/properties/a"})"), root, ""),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("expected a $ref of #/$defs/")));
}

TEST(ValueSchemaTest, ValuesAreNoReferences) {
  const OrderedJson root = ArgumentsOf(R"({"$defs": {"A": {"type": "integer"}}})");
  const std::string values =
      R"({"const": {"$ref": "#"}, "enum": [{"$ref": "#"}], "examples": [{"$ref": "#"}],
          "default": {"$ref": "#/$defs/A"}})";
  EXPECT_THAT(*ValueSchema(OrderedJson::parse(values), root, ""),
              ::testing::Not(HasSubstr("$defs\":{")));
  // Properties may have the names of keywords.
  EXPECT_THAT(*ValueSchema(OrderedJson::parse(R"({"properties": {"enum": {"$ref": "#/$defs/A"}}})"),
                           root, ""),
              HasSubstr(R"("$defs":{"A":)"));
}

TEST(ValueSchemaTest, ATextWithoutATagHasAPattern) {
  const std::string tag = "</p>";
  const std::regex pattern(PatternWithout(tag));
  // All texts of up to six of these characters.
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    EXPECT_EQ(std::regex_match(text, pattern), text.find(tag) == std::string::npos) << text;
    if (text.size() == 6) continue;
    for (const char c : std::string("</p>x")) texts.push_back(text + c);
  }
  EXPECT_THAT(PatternWithout("</\uFF5Cx>"), HasSubstr("/\uFF5C[^<x]"));
}

TEST(ValueSchemaTest, AValueMayHaveToDoWithoutATag) {
  const OrderedJson root = ArgumentsOf(R"({"$defs": {"any": {"type": "string"}}})");
  const std::string schema =
      *ValueSchema(OrderedJson::parse(R"({"items": {"$ref": "#/$defs/any"}})"), root, "</a>");
  EXPECT_THAT(schema, HasSubstr(R"("allOf":[{"items":{"$ref":"#/$defs/any"}},)"
                                R"({"$ref":"#/$defs/any_"}])"));
  EXPECT_THAT(schema, HasSubstr(R"("$defs":{"any":{"type":"string"},"any_":{"anyOf":[)"));
  EXPECT_THAT(*ValueSchema(OrderedJson::parse(R"({"type": ["integer", "null"]})"), root, "</a>"),
              ::testing::Not(HasSubstr("allOf")));
}

}  // namespace
}  // namespace lockstep::router
