#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/http/dialects/openai/body/openai_request.h"
#include "tests/router/http/dialects/openai/openai_request_fixture.h"

namespace lockstep::router {
namespace {

// A body, and the beginning of the message that it gets.
struct BadBody {
  const char* body;
  const char* words;
};

constexpr BadBody kWrongKinds[] = {
    {"", "body: byte 0: "},
    {"[1]", "body: expected a JSON object, got [1]"},
    {R"({"prompt": "\ud800"})", "body: byte "},
    {R"({"prompt": "a", "prompt": "b"})", "body: key \"prompt\" is present twice"},
    {"{}", "prompt: expected one, got none"},
    {R"({"prompt": 5})", "prompt: expected a string, token ids, or an array of those, got 5"},
    {R"({"prompt": []})", "prompt: expected"},
    {R"({"prompt": [1, "a"]})", R"(prompt[1]: expected a token id, got "a")"},
    {R"({"prompt": [[1], [-2]]})", "prompt[1][0]: expected a token id, got -2"},
    {R"({"prompt": [[1], 2]})", "prompt[1]: expected an array of token ids, got 2"},
    {R"({"prompt": [4294967296]})", "prompt[0]: expected a token id, got 4294967296"},
    {R"({"prompt": "a", "max_tokens": -1})",
     "max_tokens: expected an integer from 0 to 99, got -1"},
    {R"({"prompt": "a", "max_tokens": 4294967296})",
     "max_tokens: expected an integer from 0 to 99, got 4294967296"},
    {R"({"prompt": "a", "logprobs": -1})", "logprobs: expected an integer from 0 to 20, got -1"},
    {R"({"prompt": "a", "min_tokens": -1})", "min_tokens: expected an integer from 0 to 99, got"},
    {R"({"prompt": "a", "n": -1})", "n: expected an integer from 1 to 16, got -1"},
    {R"({"prompt": "a", "best_of": 0})", "best_of: expected an integer from 1 to 16, got 0"},
    {R"({"prompt": "a", "priority": 1001})",
     "priority: expected an integer from -1000 to 1000, got 1001"},
    {R"({"prompt": "a", "speculation": "on"})",
     "speculation: expected \"auto\" or \"off\", got \"on\""},
    {R"({"prompt": "a", "speculation": false})", "speculation: expected a string, got false"},
    {R"({"prompt": "a", "truncate_prompt_tokens": -2})",
     "truncate_prompt_tokens: expected -1 or an integer from 1 to 99, got -2"},
    {R"({"prompt": "a", "truncate_prompt_tokens": 0})",
     "truncate_prompt_tokens: expected -1 or an integer from 1 to 99, got 0"},
    {R"({"prompt": "a", "truncate_prompt_tokens": -1.0})",
     "truncate_prompt_tokens: expected -1 or an integer from 1 to 99, got -1.0"},
    {R"({"prompt": "a", "truncate_prompt_tokens": 4294967295})",
     "truncate_prompt_tokens: expected -1 or an integer from 1 to 99, got 4294967295"},
    {R"({"prompt": "a", "max_tokens": 1.5})", "max_tokens: expected an integer"},
    {R"({"prompt": "a", "temperature": "hot"})", R"(temperature: expected a number, got "hot")"},
    {R"({"prompt": "a", "stream": 1})", "stream: expected true or false, got 1"},
    {R"({"prompt": "a", "stop": [1]})", "stop: expected a string or an array of strings"},
    {R"({"prompt": "a", "max_tokens": 99999999999999999999})",
     "max_tokens: expected an integer from 0 to 99, got 99999999999999999999"},
    {R"({"prompt": [1, 36893488147419103233]})",
     "prompt[1]: expected a token id, got 3689348814741"},
    {R"({"prompt": "a", "stop_token_ids": [0, 18446744073709551617]})",
     "stop_token_ids[1]: expected a token id, got 18446744073709551617"},
    {R"({"prompt": "a", "n": 2, "best_of": 1})", "best_of: expected at least n = 2, got 1"},
    {R"({"prompt": "a", "stream_options": {}})", "stream_options: expected with \"stream\""},
    {R"({"prompt": "a", "echo": true, "truncate_prompt_tokens": 1})", "truncate_prompt_tokens:"},
    {R"({"prompt": "a", "bad_words": "x"})", "bad_words: expected an array of strings"},
    {R"({"prompt": "a", "bad_words": [1]})", "bad_words: expected an array of strings"},
    {R"({"prompt": "a", "prompt_logprobs": -2})",
     "prompt_logprobs: expected an integer from 0 to 20, got -2"},
    {R"({"prompt": "a", "prompt_logprobs": 1, "stream": true})",
     "prompt_logprobs: expected without \"stream\": true"},
};

// Numbers whose exact digits count.
constexpr BadBody kWrongSeedsAndBiases[] = {
    {R"({"prompt": "a", "seed": 18446744073709551615})",
     "seed: expected an integer from -9223372036854775808 to 9223372036854775807, got "
     "18446744073709551615"},
    {R"({"prompt": "a", "seed": 18446744073709551617})",
     "seed: expected an integer from -9223372036854775808 to 9223372036854775807, got "
     "18446744073709551617"},
    {R"({"prompt": "a", "seed": -9223372036854775809})",
     "seed: expected an integer from -9223372036854775808 to 9223372036854775807, got "
     "-9223372036854775809"},
    {R"({"prompt": "a", "seed": 1234567890123456789012345678901234567890})",
     "seed: expected an integer from -9223372036854775808 to 9223372036854775807, got "
     "1234567890123456789012345678901234567890"},
    {R"({"prompt": "a", "logit_bias": {"x": 1}})", "logit_bias: expected token ids as keys"},
    {R"({"prompt": "a", "logit_bias": {"5": 1, "05": 2}})",
     "logit_bias: expected token ids as keys, got \"05\""},
    {R"({"prompt": "a", "logit_bias": {"b": 1, "2": 1, "a": 2}})",
     R"(logit_bias: expected token ids as keys, got "a", "b")"},
    {R"({"prompt": "a", "logit_bias": {"00": 1}})",
     "logit_bias: expected token ids as keys, got \"00\""},
    {R"({"prompt": "a", "logit_bias": {"+5": 1}})",
     "logit_bias: expected token ids as keys, got \"+5\""},
    {R"({"prompt": "a", "logit_bias": {"-0": 1}})",
     "logit_bias: expected token ids as keys, got \"-0\""},
    {R"({"prompt": "a", "logit_bias": {" 5": 1}})",
     "logit_bias: expected token ids as keys, got \" 5\""},
    {R"({"prompt": "a", "logit_bias": {"5.0": 1}})",
     "logit_bias: expected token ids as keys, got \"5.0\""},
    {R"({"prompt": "a", "logit_bias": {"5e0": 1}})",
     "logit_bias: expected token ids as keys, got \"5e0\""},
    {R"({"prompt": "a", "logit_bias": {"": 1}})",
     "logit_bias: expected token ids as keys, got \"\""},
    {R"({"prompt": "a", "logit_bias": {"4294967296": 1}})",
     "logit_bias: expected token ids as keys, got \"4294967296\""},
    {R"({"prompt": "a", "logit_bias": {"1": "x"}})", "logit_bias[1]: expected a number"},
};

TEST(OpenAiRequestTest, WrongKindsAreNamed) {
  std::vector<BadBody> cases(std::begin(kWrongKinds), std::end(kWrongKinds));
  cases.insert(cases.end(), std::begin(kWrongSeedsAndBiases), std::end(kWrongSeedsAndBiases));
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.body);
    ExpectError(ParseCompletionRequest(bad.body, {.max_context_tokens = 100}).status(),
                absl::StatusCode::kInvalidArgument, bad.words);
  }
  std::string batch = "[0]";
  for (size_t i = 0; i < kMaxPromptsPerRequest; ++i) batch += ",[0]";
  ExpectError(ParseCompletionRequest(R"({"prompt": [)" + batch + "]}").status(),
              absl::StatusCode::kInvalidArgument, "prompt: expected at most 256 prompts, got 257");
}

TEST(OpenAiRequestTest, WrongChatsAreNamed) {
  const BadBody cases[] = {
      {"{}", "messages: expected at least 1 message, got none"},
      {R"({"messages": {}})", "messages: expected an array, got {}"},
      {R"({"messages": ["hi"]})", R"(messages[0]: expected a JSON object, got "hi")"},
      {R"({"messages": [{"role": 1, "content": ""}]})", "messages[0].role: expected a string"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content: expected a string, got none"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]})",
       "messages[0].content[0].text: expected a string, got 1"},
      {R"({"messages": [{"role": "user", "content": [{"text": "a"}, {"type": "text"}]}]})",
       "messages[0].content[1].text: expected a string, got none"},
      {R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": -1})",
       "max_tokens: expected an integer from 1 to 99, got -1"},
      {R"({"messages": [{"role": "user", "content": "x"}], "logprobs": true, "top_logprobs": -1})",
       "top_logprobs: expected an integer from 0 to 20, got -1"},
      {R"({"messages": [{"role": "user", "content": "x"}], "max_completion_tokens": 0})",
       "max_completion_tokens: expected an integer from 1 to "},
      {R"({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 1})",
       "top_logprobs: expected with \"logprobs\": true only"},
      {R"({"messages": [{"role": "user", "content": "x"}], "logprobs": 1})",
       "logprobs: expected true or false, got 1"},
      {R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": []})",
       "chat_template_kwargs: expected an object, got []"},
  };
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.body);
    ExpectError(ParseChatRequest(bad.body, {.max_context_tokens = 100}).status(),
                absl::StatusCode::kInvalidArgument, bad.words);
  }
}

TEST(OpenAiRequestTest, WhatWouldChangeTheOutputAndIsNotServedIsRefusedByName) {
  for (const std::string field : {R"("ebnf": "root ::= x")",
                                  R"("use_beam_search": true)",
                                  R"("length_penalty": 0.5)",
                                  R"("suffix": "end")",
                                  R"("add_special_tokens": false)",
                                  R"("best_of": 3)",
                                  R"("prompt_logprobs": -1)",
                                  R"("json_schema": {"a": 1})",
                                  R"("grammar": "root ::= x")",
                                  R"("mirostat": 2)",
                                  R"("typical_p": 0.5)",
                                  R"("dry_multiplier": 0.8)",
                                  R"("xtc_probability": 0.5)",
                                  R"("repeat_penalty": 1.1)",
                                  R"("n_predict": 5)",
                                  R"("prompt_embeds": "x")",
                                  R"("lora": [{"id": 0}])",
                                  R"("max_output_tokens": 5)",
                                  R"("max_new_tokens": 5)",
                                  R"("min_new_tokens": 5)",
                                  R"("min_length": 5)"}) {
    SCOPED_TRACE(field);
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    ExpectError(ParseCompletionRequest(R"({"prompt": "x", )" + field + "}").status(),
                absl::StatusCode::kUnimplemented, name + ": ");
  }
  for (const std::string field :
       {R"("functions": [{}])", R"("function_call": {"name": "f"})",
        R"("modalities": ["text", "audio"])", R"("thinking_budget": 5)",
        R"("audio": {"voice": "x"})", R"("reasoning_budget": 5)", R"("documents": [{}])",
        R"("chat_template": "x")", R"("echo": true)", R"("prompt": "x")",
        R"("max_output_tokens": 5)"}) {
    SCOPED_TRACE(field);
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    ExpectError(
        ParseChatRequest(R"({"messages": [{"role": "user", "content": "x"}], )" + field + "}")
            .status(),
        absl::StatusCode::kUnimplemented, name + ": ");
  }
  ExpectError(
      ParseChatRequest(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})")
          .status(),
      absl::StatusCode::kUnimplemented, "messages[0].content[0].type: parts of type");
  ExpectError(
      ParseChatRequest(R"({"messages": [{"role": "assistant", "function_call": {}}]})").status(),
      absl::StatusCode::kUnimplemented, "messages[0].function_call: not implemented");
}

TEST(OpenAiRequestTest, AFieldOfTheOtherPathNamesThatPath) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "x"}])";
  ExpectError(ParseCompletionRequest(chat + "}").status(), absl::StatusCode::kUnimplemented,
              "messages: belongs to /v1/chat/completions; this path takes prompt");
  ExpectError(ParseCompletionRequest(R"({"prompt": "x", "max_completion_tokens": 5})").status(),
              absl::StatusCode::kUnimplemented,
              "max_completion_tokens: belongs to /v1/chat/completions; this path takes max_tokens");
  ExpectError(ParseChatRequest(R"({"prompt": "x"})").status(), absl::StatusCode::kUnimplemented,
              "prompt: belongs to /v1/completions; this path takes messages");
}

TEST(OpenAiRequestTest, ManyPromptsDoNotMultiplyLargeFields) {
  const std::string salt(kMaxSharedBytes, 's');
  const auto batch =
      ParseCompletionRequest(R"({"prompt": ["a", "b"], "cache_salt": ")" + salt + R"("})");
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Message(batch.status()).find("prompt: with several prompts"), std::string::npos)
      << batch.status();
}

}  // namespace
}  // namespace lockstep::router
