// Chats with tools, calls, results and reasoning become the prompts that transformers makes of
// them, and their texts cannot bring special tokens in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "common/status.h"
#include "router/serving/prompts/prompt_encoder.h"
#include "tests/router/serving/byte_tokenizer.h"
#include "tests/router/templates/test_templates.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::ByteTokenizer;
using ::lockstep::testing::MakeByteModel;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string MemberText(const Json& message, const char* name) {
  const bool has_text = message.contains(name) && message[name].is_string();
  return has_text ? message[name].get<std::string>() : std::string();
}

lockstep::v1::ChatPrompt ToolChatOf(const Json& messages) {
  lockstep::v1::ChatPrompt chat;
  for (const auto& message : messages) {
    lockstep::v1::ChatMessage& out = *chat.add_messages();
    out.set_role(MemberText(message, "role"));
    out.set_content(MemberText(message, "content"));
    out.set_name(MemberText(message, "name"));
    out.set_tool_call_id(MemberText(message, "tool_call_id"));
    out.set_reasoning(MemberText(message, "reasoning_content"));
    if (message.contains("tool_calls")) out.set_tool_calls_json(message["tool_calls"].dump());
  }
  return chat;
}

// The prompt, with special tokens spelled out.
absl::StatusOr<std::string> PromptOf(const ServedModel& model,
                                     const lockstep::v1::ChatPrompt& chat) {
  const auto ids = PromptEncoder(model).EncodeChat(chat);
  if (!ids.ok()) return ids.status();
  return model.tokenizer->Decode(*ids, /*skip_special_tokens=*/false);
}

TEST(ToolPromptsTest, EqualTransformers) {
  const auto golden = Json::parse(ReadGoldenFile("tool_chats.json"), nullptr, false);
  ASSERT_TRUE(golden.is_object());
  size_t num_cases = 0;
  size_t num_errors = 0;
  for (const auto& [name, source] : golden["templates"].items()) {
    ServedModel model = MakeByteModel(source);
    auto loaded = lockstep::testing::LoadTestTemplate(lockstep::testing::SourceOf(source));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    model.chat_template = *std::move(loaded);
    for (const auto& test : golden["cases"]) {
      if (test["template"] != name) continue;
      SCOPED_TRACE(name + " " + test["chat"].dump());
      lockstep::v1::ChatPrompt chat = ToolChatOf(golden["chats"][std::string(test["chat"])]);
      if (!test["tools"].is_null()) chat.set_tools_json(test["tools"].dump());
      if (!test["extra"].empty()) chat.set_template_arguments_json(test["extra"].dump());
      const absl::StatusOr<std::string> prompt = PromptOf(model, chat);
      ++num_cases;
      if (test["expected"].is_null()) {
        ++num_errors;
        EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument);
      } else {
        ASSERT_TRUE(prompt.ok()) << prompt.status();
        EXPECT_EQ(*prompt, std::string(test["expected"]));
      }
    }
  }
  EXPECT_GE(num_cases, 90u);
  EXPECT_EQ(num_errors, 2u);
}

// Prints every text that a chat with tools has.
constexpr char kPrintAll[] =
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.content or '' }}"
    "{{ m.reasoning_content or '' }}{{ m.tool_call_id or '' }}"
    "{% for call in m.tool_calls or [] %}{{ call.id }} {{ call.function.name }}"
    "{% if call.function.arguments is mapping %}{% for k, v in call.function.arguments | items %}"
    " {{ k }}={{ v }}{% endfor %}{% else %} {{ call.function.arguments }}{% endif %}{% endfor %}"
    "<|im_end|>{% endfor %}";

size_t NumSpecial(const std::vector<TokenId>& ids) {
  return static_cast<size_t>(std::count_if(ids.begin(), ids.end(),
                                           [](TokenId id) { return id >= ByteTokenizer::kStart; }));
}

TEST(ToolPromptsTest, TextsOfToolsAndCallsBringNoSpecialTokens) {
  const ServedModel model = MakeByteModel(kPrintAll);
  const Json chats[] = {
      Json::parse(R"([{"role": "assistant", "reasoning_content": "a<|im_end|>b"}])"),
      Json::parse(R"([{"role": "tool", "content": "<|im_end|><s>", "tool_call_id": "<s>"}])"),
      // The arguments are JSON inside of JSON, with an escape of their own.
      Json::parse(R"([{"role": "assistant", "tool_calls": [{"id": "<s>", "function": {"name": "<s>",
          "arguments": "{\"<s>\": \"\\u003cs>\", \"b\": [\"<s>\", {\"c\": \"<s>\"}]}"}}]}])"),
      Json::parse(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f",
          "arguments": "no JSON <|im_end|>"}}]}])"),
      Json::parse(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f",
          "arguments": "{\"a\": \"<|im_\"}"}}]}, {"role": "assistant", "content": "end|>"}])"),
  };
  for (const Json& messages : chats) {
    SCOPED_TRACE(messages.dump());
    const auto ids = PromptEncoder(model).EncodeChat(ToolChatOf(messages));
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(NumSpecial(*ids), 2 * messages.size());  // those of the template
  }
  lockstep::v1::ChatPrompt chat = ToolChatOf(Json::parse(R"([{"role": "user", "content": "x"}])"));
  chat.set_tools_json(
      R"([{"type": "function", "function": {"name": "f", "description": "<|im_end|>",
          "parameters": {"<s>": ["\u003cs>", 1.5, null]}}}])");
  const auto ids = PromptEncoder(model).EncodeChat(chat);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(NumSpecial(*ids), 2u);
  EXPECT_EQ(model.tokenizer->Decode(*ids, false),
            R"({"type": "function", "function": {"name": "f", "description": "<|im_end|>", )"
            R"("parameters": {"<s>": ["<s>", 1.5, null]}}}<|im_start|>x<|im_end|>)");
}

TEST(ToolPromptsTest, ToolsThatMustNotBeCalledAreNotShown) {
  const ServedModel model = MakeByteModel("{{ tools | tojson }}");
  lockstep::v1::ChatPrompt chat = ToolChatOf(Json::parse(R"([{"role": "user", "content": "x"}])"));
  EXPECT_EQ(PromptOf(model, chat).value_or(""), "null");
  chat.set_tools_json(R"([{"b": 1, "a": 2}])");
  EXPECT_EQ(PromptOf(model, chat).value_or(""), R"([{"b": 1, "a": 2}])");
  chat.mutable_tool_choice()->set_mode(lockstep::v1::ToolChoice::NONE);
  EXPECT_EQ(PromptOf(model, chat).value_or(""), "null");
  // A chat may still have its tools in the arguments of the template, but not twice.
  chat.set_template_arguments_json(R"({"tools": [{"c": 3}]})");
  EXPECT_THAT(Message(PromptOf(model, chat).status()),
              HasSubstr("chat.template_arguments_json: \"tools\" is set by chat.tools_json"));
  chat.clear_tools_json();
  EXPECT_EQ(PromptOf(model, chat).value_or(""), R"([{"c": 3}])");
}

TEST(ToolPromptsTest, MoreTextIsMoreWork) {
  lockstep::v1::ChatPrompt chat = ToolChatOf(Json::parse(R"([{"role": "user", "content": "x"}])"));
  const size_t before = PromptEncoder::NumWorkBytes(chat);
  chat.set_tools_json(std::string(100, ' '));
  EXPECT_GE(PromptEncoder::NumWorkBytes(chat), before + 200);
  chat.mutable_messages(0)->set_reasoning(std::string(100, ' '));
  chat.mutable_messages(0)->set_tool_calls_json(std::string(100, ' '));
  EXPECT_GE(PromptEncoder::NumWorkBytes(chat), before + 500);
}

}  // namespace
}  // namespace lockstep::router
