// What a request's output must fit, over OpenAI's API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "router/http/dialects/openai/body/openai_request.h"
#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<v1::SamplingParams> ReadChatFields(const std::string& fields) {
  const absl::StatusOr<OpenAiRequest> request =
      ParseChatRequest(R"({"messages": [{"role": "user", "content": "x"}], )" + fields + "}", {});
  if (!request.ok()) return request.status();
  return request->prompts[0].sampling();
}
absl::StatusOr<v1::SamplingParams> ReadCompletionFields(const std::string& fields) {
  const absl::StatusOr<OpenAiRequest> request =
      ParseCompletionRequest(R"({"prompt": "x", )" + fields + "}", {});
  if (!request.ok()) return request.status();
  return request->prompts[0].sampling();
}

TEST(OpenAiConstraintsTest, ResponseFormatsAreRead) {
  for (const auto& read : {ReadChatFields, ReadCompletionFields}) {
    EXPECT_EQ(read(R"("response_format": {"type": "text"})")->constraint_case(),
              v1::SamplingParams::CONSTRAINT_NOT_SET);
    EXPECT_EQ(read(R"("response_format": null)")->constraint_case(),
              v1::SamplingParams::CONSTRAINT_NOT_SET);
    EXPECT_TRUE(read(R"("response_format": {"type": "json_object"})")->json_object());
    // Strict or not, with its members in the client's order.
    const auto schema = read(R"("response_format": {"type": "json_schema", "json_schema": {
        "name": "n", "description": "d", "strict": false,
        "schema": {"z": {"b": 1, "a": [2]}, "y": 3} }})");
    ASSERT_THAT(schema, IsOk());
    EXPECT_EQ(schema->json_schema(), R"({"z": {"b": 1, "a": [2]}, "y": 3})");
  }
}

TEST(OpenAiConstraintsTest, StructuredOutputsOfVllmAreRead) {
  const auto read = [](const std::string& inside) {
    return ReadChatFields(R"("structured_outputs": {)" + inside + "}");
  };
  EXPECT_EQ(read("")->constraint_case(), v1::SamplingParams::CONSTRAINT_NOT_SET);
  EXPECT_EQ(read(R"("json": {"b": 1, "a": 2})")->json_schema(), R"({"b": 1, "a": 2})");
  EXPECT_EQ(read(R"("json": "{\"b\": 1}")")->json_schema(), R"({"b": 1})");
  EXPECT_EQ(read(R"("json": true)")->json_schema(), "true");
  EXPECT_EQ(read(R"("regex": "a+")")->regex(), "a+");
  EXPECT_EQ(read(R"("grammar": "start: \"a\"")")->grammar(), "start: \"a\"");
  EXPECT_TRUE(read(R"("json_object": true)")->json_object());
  EXPECT_FALSE(read(R"("json_object": false)")->has_json_object());
  EXPECT_THAT(read(R"("choice": ["a", "b"])")->choice().texts(), ElementsAre("a", "b"));
}

TEST(OpenAiConstraintsTest, FormerFieldsOfVllmAreRead) {
  EXPECT_EQ(ReadChatFields(R"("guided_json": {"b": 1, "a": 2})")->json_schema(),
            R"({"b": 1, "a": 2})");
  EXPECT_EQ(ReadChatFields(R"("guided_regex": "a+")")->regex(), "a+");
  EXPECT_EQ(ReadChatFields(R"("guided_grammar": "start: x")")->grammar(), "start: x");
  EXPECT_THAT(ReadChatFields(R"("guided_choice": ["a"])")->choice().texts(), ElementsAre("a"));
  EXPECT_EQ(ReadChatFields(R"("guided_choice": [], "guided_regex": "", "guided_grammar": "")")
                ->constraint_case(),
            v1::SamplingParams::CONSTRAINT_NOT_SET);
}

TEST(OpenAiConstraintsTest, BadFieldsAreNamed) {
  const struct {
    std::string fields;
    std::string words;
  } cases[] = {
      {R"("response_format": 1)", "response_format: expected an object, got 1"},
      {R"("response_format": {})",
       "response_format.type: expected text, json_object or json_schema"},
      {R"("response_format": {"type": "yaml"})", "got \"yaml\""},
      {R"("response_format": {"type": "json_schema"})",
       "response_format.json_schema: expected an object"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})",
       "response_format.json_schema.schema: expected a JSON schema, got none"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"schema": [1]}})",
       "response_format.json_schema.schema: expected a JSON schema, got [1]"},
      {R"("structured_outputs": [])", "structured_outputs: expected an object, got []"},
      {R"("structured_outputs": {"regex": 1})", "structured_outputs.regex: expected"},
      {R"("structured_outputs": {"choice": ["a", 1]})",
       "structured_outputs.choice: expected an array of strings"},
      {R"("structured_outputs": {"choice": "a"})", "structured_outputs.choice: expected an array"},
      {R"("structured_outputs": {"regex": "a", "json": {}})",
       "structured_outputs.regex: expected without structured_outputs.json"},
      {R"("response_format": {"type": "json_object"}, "guided_regex": "a")",
       "guided_regex: expected without response_format"},
  };
  for (const auto& bad : cases) {
    EXPECT_THAT(ReadChatFields(bad.fields), HasError(kInvalid, HasSubstr(bad.words))) << bad.fields;
  }
  for (const std::string fields :
       {R"("response_format": {"type": "structural_tag", "structures": []})",
        R"("structured_outputs": {"structural_tag": "x"})",
        R"("structured_outputs": {"regex": "a", "whitespace_pattern": " "})",
        R"("structured_outputs": {"json": {}, "disable_any_whitespace": true})",
        R"("guided_whitespace_pattern": " ")"}) {
    EXPECT_EQ(ReadChatFields(fields).status().code(), absl::StatusCode::kUnimplemented) << fields;
  }
}

}  // namespace
}  // namespace lockstep::router
