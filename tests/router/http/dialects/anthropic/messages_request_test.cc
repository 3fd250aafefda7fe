#include <gtest/gtest.h>

#include <string>

#include "tests/router/http/dialects/anthropic/messages_fixture.h"

// The fields of a body beside its prompt, and bodies of count_tokens.
namespace lockstep::router {
namespace {

TEST(MessagesRequestTest, TheSmallestBody) {
  const MessagesRequest request =
      ParseGood(R"({"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]})");
  ASSERT_EQ(request.prompts.size(), 1u);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.lists_prompts);
  EXPECT_EQ(request.max_tokens, 1u);
  EXPECT_EQ(request.prompts[0].model(), "");
  EXPECT_EQ(request.prompts[0].stop().max_tokens(), 1u);
  EXPECT_TRUE(request.prompts[0].stop().fit_max_tokens());
  EXPECT_EQ(request.prompts[0].session_id(), "");
  EXPECT_FALSE(request.prompts[0].sampling().has_temperature());
}

TEST(MessagesRequestTest, EveryField) {
  const MessagesRequest request =
      ParseGood(MessagesBody(R"("stream": true, "temperature": 0.0001, "top_p": 0.5, "top_k": 40,
                      "stop_sequences": ["END", "\n\n"])"),
                {.session_id = "session-7"});
  const lockstep::v1::GenerateRequest& prompt = request.prompts[0];
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(prompt.model(), "tiny");
  EXPECT_FLOAT_EQ(prompt.sampling().temperature(), 0.001f);
  EXPECT_FLOAT_EQ(prompt.sampling().top_p(), 0.5f);
  EXPECT_EQ(prompt.sampling().top_k(), 40u);
  ASSERT_EQ(prompt.stop().stop_size(), 2);
  EXPECT_EQ(prompt.stop().stop(1), "\n\n");
  EXPECT_EQ(prompt.session_id(), "session-7");
  EXPECT_EQ(ParseGood(MessagesBody(R"("top_k": -1)")).prompts[0].sampling().top_k(), 0u);
}

TEST(MessagesRequestTest, ThinkingAndEffortAreVariablesOfTheTemplate) {
  const struct {
    const char* fields;
    const char* arguments;
    const char* ignored;
  } cases[] = {
      {"", "", ""},
      {R"("thinking": {"type": "enabled", "budget_tokens": 2048})", R"({"enable_thinking":true})",
       "thinking.budget_tokens"},
      {R"("thinking": {"type": "disabled"})", R"({"enable_thinking":false})", ""},
      {R"("thinking": {"type": "adaptive"})", "", ""},
      {R"("thinking": {"type": "adaptive"}, "output_config": {"effort": "high"})",
       R"({"reasoning_effort":"high"})", ""},
      {R"("thinking": {"type": "enabled"}, "output_config": {"effort": "low"})",
       R"({"enable_thinking":true,"reasoning_effort":"low"})", ""},
      {R"("output_config": {"effort": null}, "thinking": null)", "", ""},
  };
  for (const auto& [fields, arguments, ignored] : cases) {
    SCOPED_TRACE(fields);
    const MessagesRequest request = ParseGood(MessagesBody(fields));
    EXPECT_EQ(request.prompts[0].chat().template_arguments_json(), arguments);
    EXPECT_EQ(request.ignored_fields, ignored);
  }
}

TEST(MessagesRequestTest, AFormatIsAConstraint) {
  const std::string format =
      R"({"type": "json_schema", "schema": {"type": "object", "b": 1, "a": [2]}})";
  for (const std::string& fields :
       {"\"output_config\": {\"format\": " + format + "}", "\"output_format\": " + format}) {
    EXPECT_EQ(ParseGood(MessagesBody(fields)).prompts[0].sampling().json_schema(),
              R"({"type":"object","b":1,"a":[2]})");
  }
}

TEST(MessagesRequestTest, WhatChangesNothingIsIgnoredAndTheRestIsListed) {
  const MessagesRequest request = ParseGood(MessagesBody(
      R"("metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"},
         "context_management": {"edits": []}, "service_tier": "auto", "betas": ["x"],
         "container": null, "thread": {"type": "create"}, "inference_geo": "us",
         "anthropic_version": "x",
         "fallbacks": [], "mcp_servers": [{"url": "x"}])",
      R"([{"role":"user","content":[{"type":"text","text":"a","new":1}],"id":"m"}])"));
  EXPECT_EQ(request.ignored_fields,
            "messages[0].content[0].new, messages[0].id, fallbacks, mcp_servers");
}

// As Claude Code sends it, with fewer and shorter tools.
TEST(MessagesRequestTest, TheBodyOfAnAgent) {
  std::string tools;
  for (int i = 0; i < 60; ++i) {
    tools += (i == 0 ? "" : ",") + std::string(R"({"name":"mcp__server__tool_)") +
             std::to_string(i) +
             R"(","description":"Does it.","input_schema":)"
             R"({"$schema":"http://json-schema.org/draft-07/schema#",)"
             R"("type":"object","properties":{"path":{"type":"string","maxLength":100000000}},)"
             R"("required":["path"],"additionalProperties":false}})";
  }
  const MessagesRequest request =
      ParseGood(R"({"model":"claude-opus-4-8","max_tokens":32000,"stream":true,
    "messages":[{"role":"user","content":[
      {"type":"text","text":"<system-reminder>\nRead this.\n</system-reminder>"},
      {"type":"text","text":"Fix it.","cache_control":{"type":"ephemeral"}}]}],
    "system":[{"type":"text","text":"x-anthropic-billing-header: cch=12345;"},
              {"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}},
              {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}],
    "tools":[)" + tools +
                    R"(],"metadata":{"user_id":"{\"session_id\":\"1\"}"},
    "thinking":{"type":"adaptive"},"output_config":{"effort":"medium"},
    "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}})",
                {.max_context_tokens = 4096});
  EXPECT_EQ(request.ignored_fields, "");
  EXPECT_EQ(request.max_tokens, 32000u);
  const lockstep::v1::ChatPrompt& chat = request.prompts[0].chat();
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).content(), "You are Claude Code.\nBe brief.");
  const auto parsed = nlohmann::json::parse(chat.tools_json());
  ASSERT_EQ(parsed.size(), 60u);
  EXPECT_EQ(parsed[59]["function"]["name"], "mcp__server__tool_59");
}

TEST(MessagesRequestTest, StrictFieldsRefusesWhatItWouldLeaveOut) {
  const BodyReading strict{.strict_fields = true};
  EXPECT_TRUE(ParseMessagesRequest(MessagesBody(R"("metadata": {})"), strict).ok());
  for (const auto& [fields, words] : {
           std::pair(R"("fallbacks": [])", "fallbacks: this router does not know the field"),
           std::pair(R"("tools": [{"type": "web_fetch_1", "name": "f"}])",
                     "tools[0].web_fetch_1: "),
           std::pair(R"("thinking": {"type": "enabled", "budget_tokens": 5})",
                     "thinking.budget_tokens: "),
       }) {
    const absl::Status status = ParseMessagesRequest(MessagesBody(fields), strict).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(Message(status), ::testing::StartsWith(words));
  }
}

TEST(MessagesRequestTest, ACountHasThePromptOfItsMessage) {
  const std::string prompt =
      R"("system": "s", "tools": [{"name": "f", "input_schema": {"b": 1, "a": 2}}],
    "tool_choice": {"type": "any"}, "thinking": {"type": "disabled"},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}})";
  const std::string messages =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])";
  const MessagesRequest message = ParseGood(MessagesBody(prompt + R"(, "other": 1)", messages));
  for (const std::string& body :
       {MessagesBody(prompt + R"(, "other": 1, "temperature": 0.5, "stream": true)", messages),
        R"({"messages": )" + messages + ", " + prompt + R"(, "other": 1, "model": "tiny"})"}) {
    const absl::StatusOr<TokenizeQuery> count = ParseCountTokensRequest(body);
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(count->request.chat().DebugString(), message.prompts[0].chat().DebugString());
    EXPECT_EQ(count->request.model(), "tiny");
    EXPECT_EQ(count->ignored_fields, "other");
  }
}

}  // namespace
}  // namespace lockstep::router
