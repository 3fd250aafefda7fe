#include "router/calls/tool_list.h"

#include <absl/status/status.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::router {
namespace {

using Types = std::vector<std::string>;

ToolList Parsed(const std::string& json) {
  auto tools = ToolList::Parse(json);
  EXPECT_TRUE(tools.ok()) << tools.status();
  return tools.ok() ? *std::move(tools) : ToolList();
}

// The types of parameter "p" with this schema, beside these definitions.
Types TypesOfSchema(const std::string& schema, const std::string& definitions = "{}") {
  const ToolList tools =
      Parsed(R"([{"type": "function", "function": {"name": "f", "parameters": {"$defs": )" +
             definitions + R"(, "properties": {"p": )" + schema + "}}}}]");
  return tools.TypesOf("f", "p");
}

std::string ErrorOf(const std::string& json) {
  const absl::Status status = ToolList::Parse(json).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(ToolListTest, NoTools) {
  EXPECT_TRUE(Parsed("").empty());
  EXPECT_TRUE(Parsed("[]").empty());
  EXPECT_FALSE(Parsed("").Has("f"));
}

TEST(ToolListTest, Names) {
  const ToolList tools = Parsed(
      R"([{"type": "function", "function": {"name": "f"}},
          {"type": "function", "function": {"name": "g", "parameters": null, "strict": true}}])");
  EXPECT_FALSE(tools.empty());
  EXPECT_TRUE(tools.Has("f"));
  EXPECT_TRUE(tools.Has("g"));
  EXPECT_FALSE(tools.Has("h"));
  EXPECT_FALSE(tools.Has(""));
  EXPECT_EQ(tools.TypesOf("f", "p"), Types());
  EXPECT_EQ(tools.TypesOf("h", "p"), Types());
}

TEST(ToolListTest, TypesAreRead) {
  EXPECT_EQ(TypesOfSchema(R"({"type": "string"})"), Types{"string"});
  EXPECT_EQ(TypesOfSchema(R"({"type": ["integer", "null"]})"), (Types{"integer", "null"}));
  EXPECT_EQ(TypesOfSchema(R"({"anyOf": [{"type": "string"}, {"type": "array"}]})"),
            (Types{"string", "array"}));
  EXPECT_EQ(TypesOfSchema(R"({"oneOf": [{"type": "string"}, {"type": "string"}]})"),
            Types{"string"});
  EXPECT_EQ(TypesOfSchema(R"({"allOf": [{"anyOf": [{"type": "boolean"}]}]})"), Types{"boolean"});
  EXPECT_EQ(TypesOfSchema(R"({"enum": ["a", 1, 2.5, null, true]})"),
            (Types{"string", "integer", "number", "null", "boolean"}));
  EXPECT_EQ(TypesOfSchema(R"({"const": "a"})"), Types{"string"});
  EXPECT_EQ(TypesOfSchema(R"({"type": "string", "nullable": true})"), (Types{"string", "null"}));
  EXPECT_EQ(TypesOfSchema("{}"), Types());
  EXPECT_EQ(TypesOfSchema("true"), Types());
}

TEST(ToolListTest, ReferencesAreFollowed) {
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "#/$defs/a"})", R"({"a": {"type": "object"}})"),
            Types{"object"});
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "#/$defs/b"})", R"({"a": {}})"), Types());
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "elsewhere.json"})"), Types());
  EXPECT_EQ(TypesOfSchema(R"({"$ref": 1})"), Types());
}

TEST(ToolListTest, ReferencesInACircleEnd) {
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "#/$defs/a"})",
                          R"({"a": {"type": "string", "$ref": "#/$defs/a"}})"),
            Types{"string"});
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "#/$defs/a"})",
                          R"({"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}})"),
            Types());
}

TEST(ToolListTest, SchemasInACircleAllowTheSame) {
  const std::string circle = R"({"a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/b"}]},
                                 "b": {"anyOf": [{"type": "array"}, {"$ref": "#/$defs/a"}]}})";
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "#/$defs/a"})", circle), (Types{"string", "array"}));
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "#/$defs/b"})", circle), (Types{"string", "array"}));
}

// Each of many parameters names the same large definition, which names further ones. Reading it
// again for each parameter would look at ten billion values.
TEST(ToolListTest, EachSchemaIsReadOnce) {
  constexpr int kParameters = 20'000;
  constexpr int kDefinitions = 100;
  const std::string long_name(200, 'n');
  std::string definitions = "{";
  for (int i = 0; i < kDefinitions; ++i) {
    definitions += fmt::format(R"("{0}{1}": {{"$ref": "#/$defs/{0}{2}"}}, )", long_name, i, i + 1);
  }
  definitions += fmt::format(R"("{}{}": {{"enum": [true)", long_name, kDefinitions);
  for (int i = 0; i < 500'000; ++i) definitions += ",1";
  definitions += "]}}";
  std::string properties;
  for (int i = 0; i < kParameters; ++i) {
    properties +=
        fmt::format(R"({}"p{}": {{"$ref": "#/$defs/{}0"}})", i == 0 ? "" : ",", i, long_name);
  }
  const ToolList tools =
      Parsed(R"([{"type": "function", "function": {"name": "f", "parameters": {"$defs": )" +
             definitions + R"(, "properties": {)" + properties + "}}}}]");
  EXPECT_EQ(tools.TypesOf("f", "p0"), (Types{"integer", "boolean"}));
  EXPECT_EQ(tools.TypesOf("f", "p19999"), (Types{"integer", "boolean"}));
}

// Far more schemas in a row than a thread's stack could hold calls.
TEST(ToolListTest, AChainOfReferencesMayBeLong) {
  constexpr int kDefinitions = 100'000;
  std::string definitions = "{";
  for (int i = 0; i < kDefinitions; ++i) {
    definitions += fmt::format(R"("{}": {{"$ref": "#/$defs/{}"}}, )", i, i + 1);
  }
  definitions += fmt::format(R"("{}": {{"type": "string"}}}})", kDefinitions);
  EXPECT_EQ(TypesOfSchema(R"({"$ref": "#/$defs/0"})", definitions), Types{"string"});
}

TEST(ToolListTest, ErrorsSayWhere) {
  EXPECT_NE(ErrorOf("[").find("tools"), std::string::npos);
  EXPECT_EQ(ErrorOf("{}").find("expected an array"), 0U);
  EXPECT_EQ(ErrorOf("[1]"), "[0]: expected an object");
  EXPECT_EQ(ErrorOf(R"([{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}])"),
            "[1].type: expected \"function\"");
  EXPECT_EQ(ErrorOf(R"([{"type": "function"}])"), "[0].function: expected an object");
  EXPECT_EQ(ErrorOf(R"([{"type": "function", "function": {}}])"),
            "[0].function.name: expected a string that is not empty");
  EXPECT_EQ(ErrorOf(R"([{"type": "function", "function": {"name": ""}}])"),
            "[0].function.name: expected a string that is not empty");
  EXPECT_EQ(ErrorOf(R"([{"type": "function", "function": {"name": "f", "parameters": []}}])"),
            "[0].function.parameters: expected an object");
  EXPECT_EQ(ErrorOf(R"([{"type": "function", "function": {"name": "f"}},
                        {"type": "function", "function": {"name": "f"}}])"),
            "[1].function.name: expected a name that no other tool has");
}

}  // namespace
}  // namespace lockstep::router
