// How deep JSON in a body may nest: as deep as the limits of its parts allow, in every API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/status.h"
#include "router/calls/tool_list.h"
#include "router/constraints/constraint_limits.h"
#include "router/http/dialects/anthropic/messages_request.h"
#include "router/http/dialects/openai/body/openai_request.h"
#include "router/http/dialects/openai/text_queries.h"
#include "router/http/dialects/responses/responses_request.h"
#include "router/serving/prompts/tool_calls_json.h"
#include "router/serving/validation/tool_checks.h"
#include "tests/common/status_matchers.h"
#include "tests/router/serving/small_requests.h"

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
  // How the error begins if the schema is too deep.
  std::string refusal;
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
  const std::string deep_schema = "schema: at /not/not";
  const std::string deep_tools = "chat.tools_json: nested deeper than 67 levels";
  return {
      {"chat, response_format", chat,
       hi + R"("response_format": {"type": "json_schema", "json_schema": {"schema": )", "}}}",
       schema, deep_schema},
      {"chat, structured_outputs", chat, hi + R"("structured_outputs": {"json": )", "}}", schema,
       deep_schema},
      {"chat, guided_json", chat, hi + R"("guided_json": )", "}", schema, deep_schema},
      {"chat, tools", chat,
       hi + R"("tools": [{"type": "function", "function": {"name": "f", "parameters": )", "}}]}",
       tools, deep_tools},
      {"completion", completion,
       R"({"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": )",
       "}}}", schema, deep_schema},
      {"message, output_config", message,
       hi + R"("output_config": {"format": {"type": "json_schema", "schema": )", "}}}", schema,
       deep_schema},
      {"message, tools", message, hi + R"("tools": [{"name": "f", "input_schema": )", "}]}", tools,
       deep_tools},
      {"message, tool_use", message, call, result, calls,
       "messages[1].content[0].input: nested deeper than 64 levels"},
      {"response, text", response,
       R"({"input": "Hi", "text": {"format": {"type": "json_schema", "name": "s", "schema": )",
       "}}}", schema, deep_schema},
      {"response, tools", response,
       R"({"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": )", "}]}",
       tools, deep_tools},
      {"response, namespace", response,
       R"({"input": "Hi", "tools": [{"type": "namespace", "name": "n", "tools": [
           {"type": "function", "name": "f", "parameters": )",
       "}]}]}", tools, deep_tools},
  };
}

// What the router says about each part of the request that may be deep, once the body was read.
absl::Status CheckParts(const v1::GenerateRequest& request) {
  if (const std::string& schema = request.sampling().json_schema(); !schema.empty()) {
    return CheckConstraintLimits({.kind = ConstraintKind::kJsonSchema, .text = schema}, "schema");
  }
  ModelFacts model = lockstep::testing::SmallModel();
  model.parses_calls = true;
  LOCKSTEP_RETURN_IF_ERROR(CheckTools(request.chat(), "chat", RequestLimits(), model));
  LOCKSTEP_RETURN_IF_ERROR(ToolList::Parse(request.chat().tools_json()).status());
  for (const v1::ChatMessage& message : request.chat().messages()) {
    if (message.tool_calls_json().empty()) continue;
    const auto calls = ToolCallsForTemplate(message.tool_calls_json(), "calls");
    LOCKSTEP_RETURN_IF_ERROR(calls.status());
    EXPECT_THAT(*calls, HasSubstr(R"("arguments":{)")) << "a template wants an object";
  }
  return absl::OkStatus();
}

TEST(BodyDepthTest, BodiesAllowWhatTheirPartsAllow) {
  for (const DepthCase& entry : Cases()) {
    for (const size_t depth : {size_t{1}, size_t{40}, kMaxSchemaDepth - 2, kMaxSchemaDepth}) {
      SCOPED_TRACE(fmt::format("{}, {} levels", entry.name, depth));
      const auto request = entry.parse(entry.begin + Schema(depth) + entry.end);
      ASSERT_TRUE(request.ok()) << request.status();
      // In a list of calls the input is a text in JSON, with quotes of its own.
      std::string part = entry.part(*request);
      std::erase(part, '\\');
      EXPECT_THAT(part, HasSubstr(Schema(depth)));
      EXPECT_THAT(CheckParts(*request), IsOk());
    }
  }
}

TEST(BodyDepthTest, APartThatIsTooDeepIsRefusedByItsOwnLimit) {
  for (const DepthCase& entry : Cases()) {
    for (size_t depth = kMaxSchemaDepth + 1; depth <= kMaxSchemaDepth + 3; ++depth) {
      SCOPED_TRACE(fmt::format("{}, {} levels", entry.name, depth));
      const auto request = entry.parse(entry.begin + Schema(depth) + entry.end);
      const absl::Status status = request.ok() ? CheckParts(*request) : request.status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(Message(status), StartsWith(entry.refusal));
    }
  }
}

TEST(BodyDepthTest, ACallThatIsATextIsAsDeepAsItsClientLikes) {
  const std::string calls = R"([{"function": {"name": "f", "arguments": "{\"a\":)" +
                            std::string(100, '[') + std::string(100, ']') + R"(}"}}])";
  const auto rendered = ToolCallsForTemplate(calls, "calls");
  ASSERT_THAT(rendered, IsOk());
  EXPECT_THAT(*rendered, HasSubstr(R"("arguments":"{)"));
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
