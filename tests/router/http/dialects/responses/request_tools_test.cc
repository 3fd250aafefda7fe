#include "router/http/dialects/responses/request_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/router/http/dialects/responses/responses_fixture.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kWeather[] =
    R"({"type": "function", "name": "weather", "description": "Tells it.", "strict": true,
        "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {}}}})";
constexpr char kWeatherJson[] =
    R"({"type":"function","function":{"name":"weather","description":"Tells it.",)"
    R"("parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{}}},"strict":true}})";

ResponsesRequest WithTools(const std::string& tools, const std::string& more = "") {
  return ReadResponsesBody(R"({"input": "x", "tools": [)" + tools + "]" +
                           (more.empty() ? "" : ", " + more) + "}");
}

std::string ToolsJson(const ResponsesRequest& request) {
  return request.prompts[0].chat().tools_json();
}

TEST(RequestToolsTest, FunctionsKeepTheOrderOfTheirKeys) {
  const ResponsesRequest request = WithTools(kWeather);
  EXPECT_EQ(ToolsJson(request), std::string("[") + kWeatherJson + "]");
  ASSERT_THAT(request.tools, SizeIs(1));
  EXPECT_EQ(request.tools[0].flat_name, "weather");
  EXPECT_FALSE(request.tools[0].custom);
}

TEST(RequestToolsTest, AFunctionMayHaveANameOnly) {
  const std::string expected =
      R"([{"type":"function","function":{"name":"f","parameters":)"
      R"({"type":"object","properties":{},"additionalProperties":false}}}])";
  EXPECT_EQ(ToolsJson(WithTools(R"({"type": "function", "name": "f"})")), expected);
  EXPECT_EQ(ToolsJson(WithTools(R"({"type": "function", "name": "f", "parameters": null,
                                    "strict": null, "defer_loading": true})")),
            expected);
}

TEST(RequestToolsTest, NoToolsAreNoTools) {
  EXPECT_FALSE(WithTools("").prompts[0].chat().has_tool_choice());
  EXPECT_EQ(ToolsJson(WithTools("", R"("tool_choice": "auto")")), "");
}

TEST(RequestToolsTest, ACustomToolIsAFunctionOfOneText) {
  const ResponsesRequest request = WithTools(
      R"({"type": "custom", "name": "patch", "description": "Edits.",
          "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"x\"\n"}},
         {"type": "custom", "name": "shell", "format": {"type": "text"}})");
  const std::string parameters =
      R"("parameters":{"type":"object","properties":{"input":{"type":"string"}},)"
      R"("required":["input"],"additionalProperties":false}}})";
  EXPECT_EQ(ToolsJson(request),
            R"([{"type":"function","function":{"name":"patch","description":)"
            R"("Edits.\n\nThe input follows this grammar (lark):\nstart: \"x\"\n",)" +
                parameters + R"(,{"type":"function","function":{"name":"shell",)" + parameters +
                "]");
  EXPECT_TRUE(request.tools[0].custom);
}

TEST(RequestToolsTest, ANamespaceIsFlatForTheModel) {
  const ResponsesRequest request = WithTools(
      R"({"type": "namespace", "name": "files", "description": "Of files.", "tools":
          [{"type": "function", "name": "read", "parameters": {"b": 1, "a": 2}},
           {"type": "custom", "name": "write"}]},
         {"type": "function", "name": "read"})");
  EXPECT_THAT(ToolsJson(request), HasSubstr(R"("name":"files__read","parameters":{"b":1,"a":2})"));
  ASSERT_THAT(request.tools, SizeIs(3));
  EXPECT_EQ(request.tools[0].name, "read");
  EXPECT_EQ(request.tools[0].name_space, "files");
  EXPECT_EQ(request.tools[0].flat_name, "files__read");
  EXPECT_TRUE(request.tools[1].custom);
  EXPECT_EQ(request.tools[2].flat_name, "read");
}

TEST(RequestToolsTest, NamesAreCheckedWhereTheyAre) {
  const auto function = [](const std::string& name) {
    return R"({"type": "function", "name": ")" + name + R"("})";
  };
  const auto name_space = [&](const std::string& name, const std::string& inner) {
    return R"({"type": "namespace", "name": ")" + name + R"(", "tools": [)" + function(inner) +
           "]}";
  };
  const std::string expected = "expected 1 to 128 characters of [a-zA-Z0-9_.-], got ";
  const std::string half(64, 'a');
  const struct {
    std::string tool;
    std::string error;
  } cases[] = {
      {function("a:b"), "tools[0].name: " + expected + "\"a:b\""},
      {function(""), "tools[0].name: " + expected + "\"\""},
      {function(std::string(300, 'a')), "tools[0].name: " + expected},
      {name_space("a:b", "f"), "tools[0].name: " + expected + "\"a:b\""},
      {name_space("", "f"), "tools[0].name: " + expected + "\"\""},
      {name_space("n", "a:b"), "tools[0].tools[0].name: " + expected + "\"a:b\""},
      {name_space(half, half),
       "tools[0].tools[0].name: expected at most 128 characters with its namespace, got \"aaa"},
  };
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.tool);
    ExpectError(ParseResponsesRequest(R"({"input": "x", "tools": [)" + entry.tool + "]}").status(),
                absl::StatusCode::kInvalidArgument, entry.error);
  }
  EXPECT_EQ(WithTools(name_space(half, std::string(62, 'b'))).tools[0].flat_name,
            half + "__" + std::string(62, 'b'));
}

TEST(RequestToolsTest, ToolsOfOpenAisServersAreLeftOutAndNamed) {
  const std::string tools = std::string(R"({"type": "web_search", "filters": {}}, )") + kWeather +
                            R"(, {"type": "mcp", "server_label": "x"})";
  const ResponsesRequest request = WithTools(tools);
  EXPECT_EQ(ToolsJson(request), std::string("[") + kWeatherJson + "]");
  EXPECT_EQ(request.ignored_fields, "tools[0].web_search, tools[2].mcp");
  EXPECT_EQ(ToolsJson(WithTools(R"({"type": "web_search"})")), "");
  ExpectError(
      ParseResponsesRequest(R"({"input": "x", "tools": [)" + tools + "]}", {.strict_fields = true})
          .status(),
      absl::StatusCode::kUnimplemented,
      "tools[0].type: tools of type \"web_search\" are not implemented");
}

TEST(RequestToolsTest, AnUnknownMemberOfAToolIsNamed) {
  EXPECT_EQ(WithTools(R"({"type": "function", "name": "f", "colour": "red"})").ignored_fields,
            "tools[0].colour");
}

void ExpectChoice(const std::string& choice, const std::string& expected,
                  const std::string& more = "") {
  SCOPED_TRACE(choice);
  const std::string tools =
      std::string(kWeather) +
      R"(, {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]})";
  const ResponsesRequest request = WithTools(tools, R"("tool_choice": )" + choice + more);
  v1::ToolChoice parsed;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(expected, &parsed));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(
      request.prompts[0].chat().tool_choice(), parsed))
      << request.prompts[0].chat().tool_choice().DebugString();
}

TEST(RequestToolsTest, TheChoice) {
  ExpectChoice("null", "");
  ExpectChoice(R"("auto")", "mode: AUTO");
  ExpectChoice(R"("none")", "mode: NONE");
  ExpectChoice(R"("required")", "mode: REQUIRED");
  ExpectChoice(R"({"type": "function", "name": "weather"})", "mode: REQUIRED function: 'weather'");
  ExpectChoice(R"({"type": "custom", "name": "c"})", "mode: REQUIRED function: 'n__c'");
  ExpectChoice(R"("auto")", "mode: AUTO single: true", R"(, "parallel_tool_calls": false)");
  ExpectChoice(R"({"type": "allowed_tools", "mode": "required",
                   "tools": [{"type": "function", "name": "weather"}]})",
               "mode: REQUIRED");
}

TEST(RequestToolsTest, OnlyAllowedToolsAreShown) {
  const std::string tools = std::string(kWeather) + R"(, {"type": "function", "name": "f"})";
  const ResponsesRequest request =
      WithTools(tools, R"("tool_choice": {"type": "allowed_tools", "mode": "auto", "tools":
                [{"type": "function", "name": "weather"}, {"type": "web_search"}]})");
  EXPECT_EQ(ToolsJson(request), std::string("[") + kWeatherJson + "]");
}

}  // namespace
}  // namespace lockstep::router
