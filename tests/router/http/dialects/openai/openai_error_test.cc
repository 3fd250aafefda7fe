#include "router/http/dialects/openai/openai_error.h"

#include <gtest/gtest.h>

#include <string>

#include "common/status.h"
#include "router/serving/validation/build_request.h"
#include "tests/router/serving/small_requests.h"

namespace lockstep::router {
namespace {

std::string Json(const absl::Status& status, FieldNames names = CompletionFieldNames()) {
  std::string out;
  OpenAiError::Of(status, names).AppendJson(out);
  return out;
}

TEST(OpenAiErrorTest, HasTheShapeThatClientsParse) {
  EXPECT_EQ(Json(InvalidArgument("sampling.top_p: expected a number in (0, 1], got 1.5")),
            R"({"error":{"message":"top_p: expected a number in (0, 1], got 1.5",)"
            R"("type":"invalid_request_error","param":"top_p","code":null}})");
  EXPECT_EQ(Json(NotFound("model: expected \"a\" or nothing, got \"b\"")),
            R"({"error":{"message":"model: expected \"a\" or nothing, got \"b\"",)"
            R"("type":"invalid_request_error","param":"model","code":"model_not_found"}})");
  EXPECT_EQ(Json(Unimplemented("tools: not implemented")),
            R"({"error":{"message":"tools: not implemented","type":"invalid_request_error",)"
            R"("param":"tools","code":"unsupported_parameter"}})");
  EXPECT_EQ(Json(ResourceExhausted("the queue is full: 2 requests wait")),
            R"({"error":{"message":"the queue is full: 2 requests wait",)"
            R"("type":"rate_limit_exceeded","param":null,"code":"server_overloaded"}})");
}

TEST(OpenAiErrorTest, StatusesHaveTheirNumbers) {
  using absl::StatusCode;
  const struct {
    StatusCode code;
    int http_status;
    bool retry;
  } cases[] = {
      {StatusCode::kInvalidArgument, 400, false},  {StatusCode::kUnimplemented, 400, false},
      {StatusCode::kUnauthenticated, 401, false},  {StatusCode::kPermissionDenied, 403, false},
      {StatusCode::kNotFound, 404, false},         {StatusCode::kCancelled, 499, false},
      {StatusCode::kResourceExhausted, 429, true}, {StatusCode::kUnavailable, 503, true},
      {StatusCode::kDeadlineExceeded, 504, false}, {StatusCode::kInternal, 500, false},
      {StatusCode::kAborted, 500, false}};
  for (const auto& expected : cases) {
    const absl::Status status(expected.code, "x");
    EXPECT_EQ(OpenAiError::Of(status, ChatFieldNames()).http_status, expected.http_status)
        << status;
    const HttpHead head = ErrorHead(status, absl::Milliseconds(1500));
    const size_t num_headers = expected.retry ? 2 : expected.http_status == 401 ? 1 : 0;
    EXPECT_EQ(head.headers.size(), num_headers) << status;
  }
}

TEST(OpenAiErrorTest, SaysWhenToComeBackInWholeSecondsAndInMilliseconds) {
  const HttpHead head = ErrorHead(Unavailable("draining"), absl::Milliseconds(1500));
  ASSERT_EQ(head.headers.size(), 2u);
  EXPECT_EQ(head.headers[0].first, "Retry-After");
  EXPECT_EQ(head.headers[0].second, "2");
  EXPECT_EQ(head.headers[1].first, "Retry-After-Ms");
  EXPECT_EQ(head.headers[1].second, "1500");
}

TEST(OpenAiErrorTest, FieldsHaveTheNamesThatTheyHaveInJson) {
  const auto renamed = [](const std::string& message, FieldNames names = CompletionFieldNames()) {
    return WithJsonFieldName(message, names);
  };
  EXPECT_EQ(renamed("stop.stop[2]: expected"), "stop[2]: expected");
  EXPECT_EQ(renamed("stop.max_tokens: expected"), "max_tokens: expected");
  EXPECT_EQ(renamed("text: expected"), "prompt: expected");
  EXPECT_EQ(renamed("token_ids.ids[3]: expected"), "prompt[3]: expected");
  EXPECT_EQ(renamed("output.logprobs: expected"), "logprobs: expected");
  EXPECT_EQ(renamed("output.prompt_logprobs: expected"), "prompt_logprobs: expected");
  EXPECT_EQ(renamed("output.logprobs: expected", ChatFieldNames()), "top_logprobs: expected");
  EXPECT_EQ(renamed("chat.messages[0].role: expected"), "messages[0].role: expected");
  EXPECT_EQ(renamed("chat.template_arguments_json: expected"), "chat_template_kwargs: expected");
  EXPECT_EQ(renamed("sampling.logit_bias[5]: expected"), "logit_bias[5]: expected");
  EXPECT_EQ(renamed("the queue is full: 2 wait"), "the queue is full: 2 wait");
  EXPECT_EQ(renamed("textual: x"), "textual: x");
}

TEST(OpenAiErrorTest, ErrorsOfAListNameThePrompt) {
  const auto named = [](const std::string& message) {
    return Message(OfListedPrompt(InvalidArgument("{}", message), 2));
  };
  EXPECT_EQ(named("token_ids.ids[7]: expected"), "prompt[2][7]: expected");
  EXPECT_EQ(named("token_ids.ids: expected"), "prompt[2]: expected");
  EXPECT_EQ(named("text: expected"), "prompt[2]: expected");
  EXPECT_EQ(named("sampling.top_p: expected"), "sampling.top_p: expected");
  EXPECT_EQ(named("prompts of others: x"), "prompts of others: x");
}

TEST(OpenAiErrorTest, PromptsBeyondTheContextHaveACodeOfTheirOwn) {
  const RequestLimits limits = testing::SmallLimits();
  const ModelFacts model = testing::SmallModel();
  lockstep::v1::GenerateRequest request = testing::SmallRequest();
  RequestContext context;
  const auto error = [&](size_t num_tokens) {
    const absl::Status status =
        BuildRequest(request, std::vector<TokenId>(num_tokens, 1), limits, model, context).status();
    return OpenAiError::Of(status, CompletionFieldNames());
  };
  const OpenAiError too_long = error(32);
  EXPECT_EQ(too_long.code, "context_length_exceeded");
  EXPECT_EQ(too_long.param, "prompt");
  EXPECT_TRUE(too_long.message.starts_with("This model's maximum context length is 32 tokens."));
  EXPECT_EQ(error(0).code, "");
  request.mutable_stop()->set_max_tokens(10);
  EXPECT_EQ(error(30).code, "context_length_exceeded");
  EXPECT_EQ(error(30).param, "max_tokens");
  request.mutable_stop()->set_min_tokens(11);
  EXPECT_EQ(error(20).code, "");
}

}  // namespace
}  // namespace lockstep::router
