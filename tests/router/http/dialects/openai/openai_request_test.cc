#include "router/http/dialects/openai/body/openai_request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/status.h"
#include "router/http/dialects/openai/text_queries.h"
#include "tests/router/http/dialects/openai/openai_request_fixture.h"

namespace lockstep::router {
namespace {

TEST(OpenAiRequestTest, ACompletionBecomesTheSameRequestAsOverGrpc) {
  const auto request = ParseCompletionRequest(R"({
    "model": "tiny", "prompt": "Once", "max_tokens": 9, "temperature": 0.5, "top_p": 0.9,
    "n": 2, "stop": ["a", "b"], "presence_penalty": 0.25, "frequency_penalty": -0.5, "seed": -2,
    "logit_bias": {"5": -100, "7": 1.5}, "user": "someone", "logprobs": 3, "best_of": 2,
    "top_k": -1, "min_p": 0.125, "repetition_penalty": 1.25, "stop_token_ids": [3, 4],
    "include_stop_str_in_output": true, "ignore_eos": true, "min_tokens": 2,
    "skip_special_tokens": false, "truncate_prompt_tokens": 8, "allowed_token_ids": [1, 2],
    "priority": -4, "cache_salt": "salt", "session_id": "s", "request_id": "mine",
    "bad_words": ["x", " y"], "speculation": "off"})");
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->prompts.size(), 1u);
  ExpectSame(request->prompts[0], R"(
    request_id: "mine" model: "tiny" text: "Once" priority: -4 cache_salt: "salt" session_id: "s"
    truncate_prompt_tokens: 8 speculation: SPECULATION_OFF
    sampling {
      temperature: 0.5 top_p: 0.9 top_k: 0 min_p: 0.125 presence_penalty: 0.25
      frequency_penalty: -0.5 repetition_penalty: 1.25 seed: 18446744073709551614 n: 2
      logit_bias { key: 5 value: -100 } logit_bias { key: 7 value: 1.5 } allowed_token_ids: [1, 2]
      bad_words: "x" bad_words: " y"
    }
    stop {
      max_tokens: 9 min_tokens: 2 stop: "a" stop: "b" stop_token_ids: [3, 4] ignore_eos: true
      include_stop: true
    }
    output { logprobs: 3 skip_special_tokens: false })");
  EXPECT_EQ(request->options.num_samples, 2u);
  EXPECT_TRUE(request->options.logprobs);
  EXPECT_FALSE(request->stream);
}

TEST(OpenAiRequestTest, DefaultsAreLeftToTheModelButTheLengthOfACompletion) {
  const auto completion =
      ParseCompletionRequest(R"({"prompt": "x", "stop": null, "speculation": "auto"})");
  ASSERT_TRUE(completion.ok()) << completion.status();
  ExpectSame(completion->prompts[0], R"(text: "x" sampling {} stop { max_tokens: 16 })");
  const auto chat = ParseChatRequest(R"({"messages": [{"role": "user", "content": "x"}]})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  ExpectSame(chat->prompts[0],
             R"(sampling {} stop {} chat { messages { role: "user" content: "x" } })");
}

TEST(OpenAiRequestTest, SamplingIsAsLenientAsThatOfVllm) {
  const auto sampling = [](const std::string& fields) {
    const auto request = ParseCompletionRequest(R"({"prompt": "x", )" + fields + "}");
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? request->prompts[0].sampling() : v1::SamplingParams();
  };
  EXPECT_FALSE(sampling(R"("seed": -1)").has_seed());
  EXPECT_EQ(sampling(R"("seed": 0)").seed(), 0u);
  EXPECT_EQ(sampling(R"("temperature": 1e-6)").temperature(), 0.001f);
  EXPECT_EQ(sampling(R"("temperature": 0.001)").temperature(), 0.001f);
  EXPECT_EQ(sampling(R"("temperature": 0.002)").temperature(), 0.002f);
  EXPECT_EQ(sampling(R"("temperature": 0)").temperature(), 0.0f);
  EXPECT_EQ(sampling(R"("temperature": -0.0005)").temperature(), -0.0005f) << "refused later";
}

TEST(OpenAiRequestTest, PromptsAreTextsTokensOrBatchesOfBoth) {
  const auto prompts = [](const std::string& json) {
    const auto request = ParseCompletionRequest(R"({"request_id": "r", "prompt": )" + json + "}");
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? request->prompts : std::vector<v1::GenerateRequest>();
  };
  const std::string rest = " sampling {} stop { max_tokens: 16 }";
  const auto ids = prompts("[5, 6]");
  ASSERT_EQ(ids.size(), 1u);
  ExpectSame(ids[0], R"(request_id: "r" token_ids { ids: [5, 6] })" + rest);
  const auto mixed = prompts(R"(["a", [7], "b"])");
  ASSERT_EQ(mixed.size(), 3u);
  ExpectSame(mixed[0], R"(request_id: "r-0" text: "a")" + rest);
  ExpectSame(mixed[1], R"(request_id: "r-1" token_ids { ids: 7 })" + rest);
  ExpectSame(mixed[2], R"(request_id: "r-2" text: "b")" + rest);
}

TEST(OpenAiRequestTest, EchoWithLogprobsAsksForThePromptsToo) {
  const auto request =
      ParseCompletionRequest(R"({"prompt": [1], "echo": true, "logprobs": 1, "max_tokens": 0})");
  ASSERT_TRUE(request.ok()) << request.status();
  ExpectSame(request->prompts[0], R"(token_ids { ids: 1 } sampling {} stop { max_tokens: 1 }
                                     output { logprobs: 1 prompt_logprobs: 1 })");
  EXPECT_TRUE(request->options.echo);
  EXPECT_TRUE(request->options.prompt_only);
}

TEST(OpenAiRequestTest, PromptLogprobsAreOfAnyKind) {
  for (const uint32_t count : {0u, 3u}) {
    const std::string field = fmt::format(R"("prompt_logprobs": {}}})", count);
    const auto completion = ParseCompletionRequest(R"({"prompt": [1], )" + field);
    const auto chat =
        ParseChatRequest(R"({"messages": [{"role": "user", "content": "x"}], )" + field);
    for (const auto& request : {completion, chat}) {
      ASSERT_TRUE(request.ok()) << request.status();
      EXPECT_EQ(request->prompts[0].output().prompt_logprobs(), count);
      EXPECT_TRUE(request->prompts[0].output().has_prompt_logprobs());
      EXPECT_EQ(request->options.prompt_logprobs, count);
    }
  }
}

TEST(OpenAiRequestTest, AnEchoAndPromptLogprobsShareTheLargerNumber) {
  const auto request = [](int echoed, int asked) {
    return ParseCompletionRequest(
        fmt::format(R"({{"prompt": [1], "echo": true, "logprobs": {}, "prompt_logprobs": {}}})",
                    echoed, asked));
  };
  const auto more_asked = request(1, 4);
  ASSERT_TRUE(more_asked.ok()) << more_asked.status();
  EXPECT_EQ(more_asked->prompts[0].output().prompt_logprobs(), 4u);
  EXPECT_EQ(more_asked->options.echo_logprobs, 1u);
  const auto more_echoed = request(5, 2);
  ASSERT_TRUE(more_echoed.ok()) << more_echoed.status();
  EXPECT_EQ(more_echoed->prompts[0].output().prompt_logprobs(), 5u);
  EXPECT_EQ(more_echoed->options.prompt_logprobs, 2u);
}

TEST(OpenAiRequestTest, ALastMessageMayBeLeftOpen) {
  const auto request = ParseChatRequest(
      R"({"messages": [{"role": "assistant", "content": "x"}], "continue_final_message": true})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->prompts[0].chat().continue_final_message());
  EXPECT_FALSE(request->prompts[0].chat().has_add_generation_prompt());
}

TEST(OpenAiRequestTest, AChatBecomesItsMessages) {
  const auto request = ParseChatRequest(R"({
    "messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, {"text": "b"}]},
                 {"role": "user", "content": "c", "name": null},
                 {"role": "assistant", "content": "d", "name": "bob", "tool_calls": []}],
    "max_tokens": 5, "max_completion_tokens": 7, "logprobs": true, "top_logprobs": 2,
    "add_generation_prompt": false, "chat_template_kwargs": {"enable_thinking": false},
    "stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true},
    "tools": [], "tool_choice": "none", "response_format": {"type": "text"}})");
  ASSERT_TRUE(request.ok()) << request.status();
  ExpectSame(request->prompts[0], R"(
    chat {
      messages { role: "system" content: "a\nb" } messages { role: "user" content: "c" }
      messages { role: "assistant" content: "d" name: "bob" } add_generation_prompt: false
      template_arguments_json: "{\"enable_thinking\":false}"
    }
    sampling {} stop { max_tokens: 7 } output { logprobs: 2 })");
  EXPECT_TRUE(request->stream && request->options.include_usage &&
              request->options.continuous_usage);
}

// As at vLLM.
TEST(OpenAiRequestTest, ContinuousUsageNeedsUsage) {
  const struct {
    std::string options;
    bool include;
    bool continuous;
  } cases[] = {
      {"{}", false, false},
      {R"({"include_usage": true})", true, false},
      {R"({"include_usage": true, "continuous_usage_stats": true})", true, true},
      {R"({"include_usage": false, "continuous_usage_stats": true})", false, false},
      {R"({"continuous_usage_stats": true})", false, false},
  };
  for (const auto& [options, include, continuous] : cases) {
    const auto request = ParseCompletionRequest(
        R"({"prompt": "x", "stream": true, "stream_options": )" + options + "}");
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->options.include_usage, include) << options;
    EXPECT_EQ(request->options.continuous_usage, continuous) << options;
  }
}

TEST(OpenAiRequestTest, AllThatFitsMayBeKeptOfAPrompt) {
  const auto request = ParseCompletionRequest(R"({"prompt": "x", "truncate_prompt_tokens": -1})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->prompts[0].truncate_prompt_tokens(), kAllThatFits);
}

TEST(OpenAiRequestTest, TemplateArgumentsKeepTheirOrder) {
  const std::string body =
      R"({"chat_template_kwargs": {"z": [{"type": 1, "b": {"d": 1.5, "c": {}}}],
                               "a": "\u00e9"}, "messages": [{"role": "user", "content": "x"}]})";
  constexpr const char* kExpected = R"({"z":[{"type":1,"b":{"d":1.5,"c":{}}}],"a":"é"})";
  const auto chat = ParseChatRequest(body);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->prompts[0].chat().template_arguments_json(), kExpected);
  const auto query = ParseTokenizeRequest(body);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->request.chat().template_arguments_json(), kExpected);
}

TEST(OpenAiRequestTest, WhatChangesNothingPasses) {
  EXPECT_TRUE(ParseCompletionRequest(R"({"prompt": "x", "user": "u", "metadata": {"a": "b"},
      "store": true, "service_tier": "auto", "length_penalty": 1.0, "response_format": null,
      "suffix": "", "best_of": 1, "bad_words": [], "stream": true,
      "stream_options": {"include_obfuscation": false}})")
                  .ok());
  const auto samplers_that_are_off = ParseCompletionRequest(R"({"prompt": "x", "mirostat": 0,
      "mirostat_tau": 5.0, "typical_p": 1.0, "tfs_z": 1, "top_n_sigma": -1.0, "repeat_last_n": -1,
      "dry_multiplier": 0.0, "dry_base": 1.75, "dry_sequence_breakers": ["\n"],
      "xtc_probability": 0, "xtc_threshold": 0.1, "dynatemp_range": 0.0, "n_predict": -1,
      "grammar": "", "cache_prompt": true, "lora": [], "n_probs": 0})");
  ASSERT_TRUE(samplers_that_are_off.ok()) << samplers_that_are_off.status();
  EXPECT_EQ(samplers_that_are_off->ignored_fields, "");
}

TEST(OpenAiRequestTest, ValuesThatAskForNothingPass) {
  for (const std::string stop : {R"("")", "[]", "null"}) {
    const auto request = ParseCompletionRequest(R"({"prompt": "x", "stop": )" + stop + "}");
    ASSERT_TRUE(request.ok()) << stop << ": " << request.status();
    EXPECT_EQ(request->prompts[0].stop().stop_size(), 0) << stop;
  }
  for (const std::string field :
       {R"("reasoning_effort": "none")", R"("tool_choice": "none")", R"("tool_choice": "auto")",
        R"("tools": [], "tool_choice": "auto")", R"("functions": [], "function_call": "auto")",
        R"("modalities": ["text"])", R"("verbosity": "medium")", R"("audio": null)",
        R"("response_format": {"type": "text"})", R"("logit_bias": {})", R"("stop_token_ids": [])",
        R"("top_logprobs": 0)", R"("n": 1)", R"("include_reasoning": true)",
        R"("thinking": {"type": "disabled"})", R"("parallel_tool_calls": true)"}) {
    const auto request =
        ParseChatRequest(R"({"messages": [{"role": "user", "content": "x"}], )" + field + "}");
    EXPECT_TRUE(request.ok()) << field << ": " << request.status();
  }
}

TEST(OpenAiRequestTest, AnAssistantMayHaveSaidNothing) {
  const auto chat = [](const std::string& message) {
    return ParseChatRequest(R"({"messages": [{"role": "user", "content": "x"}, )" + message + "]}");
  };
  // As OpenAI's SDK repeats a message of an answer.
  const auto said = chat(R"({"role": "assistant", "content": null, "refusal": null, "audio": null,
      "annotations": [], "function_call": null, "tool_calls": null})");
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->prompts[0].chat().messages(1).content(), "");
  EXPECT_TRUE(chat(R"({"role": "assistant"})").ok());
  ExpectError(chat(R"({"role": "system", "content": null})").status(),
              absl::StatusCode::kInvalidArgument, "messages[1].content: expected a string");
}

TEST(OpenAiRequestTest, OnlyTextsMaySpellSpecialTokens) {
  const auto mixed = ParseCompletionRequest(R"({"prompt": ["a", [7]], "parse_special": false})");
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_TRUE(mixed->prompts[0].has_parse_special());
  EXPECT_FALSE(mixed->prompts[0].parse_special());
  EXPECT_FALSE(mixed->prompts[1].has_parse_special());
  const std::string messages = R"({"messages": [{"role": "user", "content": "x"}], )";
  ExpectError(ParseChatRequest(messages + R"("parse_special": true})").status(),
              absl::StatusCode::kUnimplemented, "parse_special: ");
  EXPECT_TRUE(ParseChatRequest(messages + R"("parse_special": false})").ok());
  ExpectError(ParseTokenizeRequest(messages + R"("parse_special": true})").status(),
              absl::StatusCode::kInvalidArgument, "parse_special: ");
  const auto text = ParseTokenizeRequest(R"({"prompt": "x", "parse_special": true})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(text->request.parse_special());
}

TEST(OpenAiRequestTest, TokenizeTakesATextOrAChat) {
  const auto text = ParseTokenizeRequest(
      R"({"model": "m", "prompt": "x", "add_special_tokens": false, "return_token_strs": true})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->request.text(), "x");
  EXPECT_FALSE(text->request.add_special_tokens());
  EXPECT_TRUE(text->token_strings);
  const auto chat = ParseTokenizeRequest(R"({"messages": [{"role": "user", "content": "x"}]})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->request.chat().messages_size(), 1);
  ExpectError(ParseTokenizeRequest("{}").status(), absl::StatusCode::kInvalidArgument, "prompt: ");
  ExpectError(ParseDetokenizeRequest("{}").status(), absl::StatusCode::kInvalidArgument,
              "tokens: ");
  const auto ids = ParseDetokenizeRequest(R"({"tokens": [1, 2]})");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(ids->request.token_ids_size(), 2);
}

}  // namespace
}  // namespace lockstep::router
