// How deep JSON in a body may nest: as deep as the limits of its parts allow, in every API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/status.h"
#include "router/constraints/constraint_limits.h"
#include "router/http/dialects/anthropic/messages_request.h"
#include "router/http/dialects/openai/body/openai_request.h"
#include "router/http/dialects/openai/text_queries.h"
#include "router/http/dialects/responses/responses_request.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A schema of so many levels.
std::string Schema(size_t depth) {
  std::string text = "{}";
  for (size_t i = 1; i < depth; ++i) text = R"({"not":)" + text + "}";
  return text;
}

using Parse = std::function<absl::StatusOr<v1::GenerateRequest>(const std::string&)>;

template <typename Request>
absl::StatusOr<v1::GenerateRequest> FirstPrompt(absl::StatusOr<Request> request) {
  if (!request.ok()) return request.status();
  return request->prompts.at(0);
}

struct DepthCase {
  const char* name;
  Parse parse;
  // The body around a schema.
  std::string begin;
  std::string end;
  // Where it goes.
  std::function<std::string(const v1::GenerateRequest&)> part;
};

std::vector<DepthCase> Cases() {
  const Parse chat = [](const std::string& body) { return FirstPrompt(ParseChatRequest(body)); };
  const Parse completion = [](const std::string& body) {
    return FirstPrompt(ParseCompletionRequest(body));
  };
  const Parse message = [](const std::string& body) {
    return FirstPrompt(ParseMessagesRequest(body, {}));
  };
  const Parse response = [](const std::string& body) {
    return FirstPrompt(ParseResponsesRequest(body));
  };
  const auto schema = [](const v1::GenerateRequest& request) {
    return request.sampling().json_schema();
  };
  const auto tools = [](const v1::GenerateRequest& request) { return request.chat().tools_json(); };
  const auto calls = [](const v1::GenerateRequest& request) {
    return request.chat().messages(1).tool_calls_json();
  };
  const std::string hi = R"({"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}], )";
  const std::string call = R"({"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": )";
  const std::string result = R"(}]}, {"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "c", "content": "x"}]}]})";
  return {
      {"chat, response_format", chat,
       hi + R"("response_format": {"type": "json_schema", "json_schema": {"schema": )", "}}}",
       schema},
      {"chat, structured_outputs", chat, hi + R"("structured_outputs": {"json": )", "}}", schema},
      {"chat, guided_json", chat, hi + R"("guided_json": )", "}", schema},
      {"chat, tools", chat,
       hi + R"("tools": [{"type": "function", "function": {"name": "f", "parameters": )", "}}]}",
       tools},
      {"completion", completion,
       R"({"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": )",
       "}}}", schema},
      {"message, output_config", message,
       hi + R"("output_config": {"format": {"type": "json_schema", "schema": )", "}}}", schema},
      {"message, tools", message, hi + R"("tools": [{"name": "f", "input_schema": )", "}]}", tools},
      {"message, tool_use", message, call, result, calls},
      {"response, text", response,
       R"({"input": "Hi", "text": {"format": {"type": "json_schema", "name": "s", "schema": )",
       "}}}", schema},
      {"response, tools", response,
       R"({"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": )", "}]}",
       tools},
      {"response, namespace", response,
       R"({"input": "Hi", "tools": [{"type": "namespace", "name": "n", "tools": [
           {"type": "function", "name": "f", "parameters": )",
       "}]}]}", tools},
  };
}

TEST(BodyDepthTest, BodiesAllowWhatTheirPartsAllow) {
  for (const DepthCase& entry : Cases()) {
    for (const size_t depth : {size_t{1}, size_t{40}, kMaxSchemaDepth}) {
      SCOPED_TRACE(fmt::format("{}, {} levels", entry.name, depth));
      const auto request = entry.parse(entry.begin + Schema(depth) + entry.end);
      ASSERT_TRUE(request.ok()) << request.status();
      // In a list of calls the input is a text in JSON, with quotes of its own.
      std::string part = entry.part(*request);
      std::erase(part, '\\');
      EXPECT_THAT(part, HasSubstr(Schema(depth)));
    }
  }
}

TEST(BodyDepthTest, APartThatIsTooDeepIsRefusedByItsOwnLimit) {
  for (const DepthCase& entry : Cases()) {
    SCOPED_TRACE(entry.name);
    const auto request = entry.parse(entry.begin + Schema(kMaxSchemaDepth + 1) + entry.end);
    ASSERT_TRUE(request.ok()) << request.status();
    const std::string& schema = request->sampling().json_schema();
    if (schema.empty()) continue;
    const Constraint constraint = {.kind = ConstraintKind::kJsonSchema, .text = schema};
    EXPECT_THAT(Message(CheckConstraintLimits(constraint, "x")),
                HasSubstr("expected at most 64 nested levels"));
  }
}

TEST(BodyDepthTest, NothingNestsWithoutEnd) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const DepthCase& entry : Cases()) {
    for (const std::string& part : {Schema(100), deep}) {
      SCOPED_TRACE(entry.name);
      EXPECT_THAT(Message(entry.parse(entry.begin + part + entry.end).status()),
                  StartsWith("body: nested deeper than 72 levels"));
    }
  }
  for (const std::string& body :
       {R"({"prompt": )" + deep + "}", R"({"unknown": )" + deep + "}", deep}) {
    EXPECT_THAT(Message(ParseTokenizeRequest(body, {}).status()),
                StartsWith("body: nested deeper than 72 levels"));
  }
}

}  // namespace
}  // namespace lockstep::router
