#include "router/http/dialects/anthropic/anthropic_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/status.h"
#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/anthropic/messages_dialect.h"
#include "router/serving/validation/context_overflow.h"
#include "router/serving/validation/retry_hint.h"

namespace lockstep::router {
namespace {

TEST(AnthropicErrorTest, StatusesHaveAnthropicsTypes) {
  const struct {
    absl::StatusCode code;
    int http_status;
    const char* type;
  } cases[] = {
      {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error"},
      {absl::StatusCode::kUnimplemented, 400, "invalid_request_error"},
      {absl::StatusCode::kUnauthenticated, 401, "authentication_error"},
      {absl::StatusCode::kPermissionDenied, 403, "permission_error"},
      {absl::StatusCode::kNotFound, 404, "not_found_error"},
      {absl::StatusCode::kOutOfRange, 413, "request_too_large"},
      {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error"},
      {absl::StatusCode::kInternal, 500, "api_error"},
      {absl::StatusCode::kUnavailable, 503, "overloaded_error"},
      {absl::StatusCode::kDeadlineExceeded, 504, "timeout_error"},
  };
  for (const auto& [code, http_status, type] : cases) {
    std::string body;
    const HttpHead head = MessagesDialect().WriteError(
        absl::Status(code, "words"), {.retry_after = absl::Seconds(2), .request_id = "r-1"}, body);
    EXPECT_EQ(head.status, http_status) << type;
    EXPECT_EQ(body, R"({"type":"error","error":{"type":")" + std::string(type) +
                        R"(","message":"words"},"request_id":"r-1"})");
    const bool retries = http_status == 429 || http_status == 503;
    const bool says_when = std::ranges::any_of(
        head.headers, [](const auto& header) { return header.first == "Retry-After"; });
    EXPECT_EQ(says_when, retries) << http_status;
  }
}

// Clients of Anthropic send the conversation again at this code.
TEST(AnthropicErrorTest, AThreadThatIsNotThereHasItsCode) {
  std::string body;
  const HttpHead head =
      MessagesDialect().WriteError(NotFound("thread.previous_message_id: none"),
                                   {.retry_after = absl::Seconds(2), .request_id = "r-1"}, body);
  EXPECT_EQ(head.status, 404);
  EXPECT_EQ(body, R"({"type":"error","error":{"type":"not_found_error","message":)"
                  R"("thread.previous_message_id: none","details":)"
                  R"({"error_code":"thread_not_found"}},"request_id":"r-1"})");
  // A wrong id is the client's mistake. Another try would not mend it.
  std::string mistake;
  MessagesDialect().WriteError(InvalidArgument("thread.previous_message_id: none"), {}, mistake);
  EXPECT_THAT(mistake, ::testing::Not(::testing::HasSubstr("error_code")));
}

TEST(AnthropicErrorTest, RefusalsOfTheGatewayHaveTheSameForm) {
  const struct {
    int http_status;
    const char* type;
  } cases[] = {
      {405, "invalid_request_error"}, {413, "request_too_large"}, {415, "invalid_request_error"},
      {431, "invalid_request_error"}, {501, "api_error"},         {529, "overloaded_error"}};
  for (const auto& [http_status, type] : cases) {
    std::string body;
    EXPECT_TRUE(MessagesDialect().WriteRefusal(http_status, "no \"way\"", "", body));
    EXPECT_EQ(body, R"({"type":"error","error":{"type":")" + std::string(type) +
                        R"(","message":"no \"way\""},"request_id":null})");
  }
}

TEST(AnthropicErrorTest, FieldsHaveTheirNamesInTheBody) {
  const struct {
    const char* message;
    const char* expected;
  } cases[] = {
      {"stop.stop[3]: expected", "stop_sequences[3]: expected"},
      {"stop.max_tokens: expected", "max_tokens: expected"},
      {"sampling.top_p: expected", "top_p: expected"},
      {"sampling.json_schema: guided", "output_config.format: guided"},
      {"chat.messages: expected", "messages: expected"},
      {"chat.tools_json: tools", "tools: tools"},
      {"chat.tool_choice: x", "tool_choice: x"},
      {"chat.template_arguments_json: x", "thinking: x"},
      {"chat: expected text", "messages: expected text"},
      {"model: expected", "model: expected"},
  };
  for (const auto& [message, expected] : cases) {
    EXPECT_EQ(MessagesErrorOf(InvalidArgument("{}", message)).message, expected);
  }
}

// Agents look for these words and then shorten their history.
TEST(AnthropicErrorTest, APromptThatIsTooLongIsSaidInTheWordsOfTheApi) {
  lockstep::v1::GenerateRequest request;
  request.mutable_chat();
  const OpenAiError error =
      MessagesErrorOf(ContextOverflow(request, 4096, 5000, 1, "chat.messages"));
  EXPECT_EQ(error.http_status, 400);
  EXPECT_THAT(error.message, ::testing::StartsWith("prompt is too long: This model's maximum"));
}

}  // namespace
}  // namespace lockstep::router
