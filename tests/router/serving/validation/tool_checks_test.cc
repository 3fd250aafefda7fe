#include "router/serving/validation/tool_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/status.h"
#include "tests/router/serving/small_requests.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::SmallModel;
using lockstep::v1::ChatPrompt;
using lockstep::v1::ToolChoice;
using ::testing::Eq;
using ::testing::StartsWith;

std::string Tool(const std::string& name) {
  return R"({"type": "function", "function": {"name": ")" + name + R"("}})";
}

ChatPrompt ChatWith(const std::string& tools) {
  ChatPrompt chat;
  auto* const message = chat.add_messages();
  message->set_role("user");
  message->set_content("x");
  chat.set_tools_json(tools);
  return chat;
}

class ToolChecksTest : public ::testing::Test {
 protected:
  ToolChecksTest() { model_.parses_calls = true; }

  absl::Status Check(const ChatPrompt& chat) const {
    return CheckChat(chat, "chat", limits_, model_);
  }

  RequestLimits limits_;
  ModelFacts model_ = SmallModel();
};

TEST_F(ToolChecksTest, ToolsInTheFormOfOpenAiPass) {
  for (const std::string& tools : {
           "[" + Tool("f") + "]",
           "[" + Tool("get-Weather_2.x") + "," + Tool(std::string(128, 'a')) + "]",
           std::string(R"([{"type": "function", "function": {"name": "f", "description": "x",
               "parameters": {"type": "object"}, "strict": true, "more": 1}, "cache": {}}])"),
           std::string(R"([{"type": "function", "function": {"name": "f", "parameters": null}}])"),
       }) {
    SCOPED_TRACE(tools);
    EXPECT_EQ(Check(ChatWith(tools)), absl::OkStatus());
  }
}

struct BadTools {
  std::string tools;
  const char* words;
};

TEST_F(ToolChecksTest, WhatIsNoToolIsNamed) {
  const BadTools cases[] = {
      {"[", "chat.tools_json: byte 1: "},
      {"{}", "chat.tools_json: expected an array of tools, got {}"},
      {"[]", "chat.tools_json: expected an array of tools, got []"},
      {"[1]", "chat.tools_json[0]: expected an object, got 1"},
      {"[{}]", "chat.tools_json[0].type: expected a string such as \"function\""},
      {R"([{"type": "function"}])", "chat.tools_json[0].function: expected an object"},
      {R"([{"type": "function", "function": {}}])",
       "chat.tools_json[0].function.name: expected a string"},
      {"[" + Tool("f") + "," + Tool("f g") + "]",
       "chat.tools_json[1].function.name: expected 1 to 128 characters of [a-zA-Z0-9_.-], got "
       "\"f g\""},
      {"[" + Tool("") + "]", "chat.tools_json[0].function.name: expected 1 to 128 characters"},
      {"[" + Tool(std::string(129, 'a')) + "]", "chat.tools_json[0].function.name: expected 1 to"},
      {"[" + Tool("<s>") + "]", "chat.tools_json[0].function.name: expected 1 to 128 characters"},
      {"[" + Tool("f") + "," + Tool("f") + "]",
       "chat.tools_json[1].function.name: expected another name, got \"f\" again"},
      {R"([{"type": "function", "function": {"name": "f", "parameters": []}}])",
       "chat.tools_json[0].function.parameters: expected a JSON schema, got []"},
      {R"([{"type": "function", "function": {"name": "f", "a": 1, "a": 2}}])",
       "chat.tools_json: key \"a\" is present twice"},
      {std::string(68, '[') + std::string(68, ']'),
       "chat.tools_json: nested deeper than 67 levels"},
      {std::string(67, '[') + std::string(67, ']'), "chat.tools_json[0]: expected an object"},
  };
  for (const BadTools& entry : cases) {
    SCOPED_TRACE(entry.tools);
    const absl::Status status = Check(ChatWith(entry.tools));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), StartsWith(entry.words));
  }
  const absl::Status custom = Check(ChatWith(R"([{"type": "custom", "custom": {}}])"));
  EXPECT_EQ(custom.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(custom), StartsWith("chat.tools_json[0].type: only functions"));
}

TEST_F(ToolChecksTest, AConstraintAllowsNoCalls) {
  lockstep::v1::GenerateRequest request;
  *request.mutable_chat() = ChatWith("[" + Tool("f") + "]");
  request.mutable_sampling()->set_json_object(true);
  ModelFacts model = SmallModel();
  model.parses_calls = true;
  model.enforces_constraints = true;
  const absl::Status status = CheckRequest(request, limits_, model);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status), StartsWith("chat.tools_json: tools beside a constraint"));
  request.mutable_chat()->mutable_tool_choice()->set_mode(ToolChoice::NONE);
  EXPECT_EQ(CheckRequest(request, limits_, model), absl::OkStatus());
}

TEST_F(ToolChecksTest, NumberAndSizeAreBounded) {
  limits_.max_tools = 2;
  EXPECT_EQ(Check(ChatWith("[" + Tool("a") + "," + Tool("b") + "]")), absl::OkStatus());
  EXPECT_THAT(Message(Check(ChatWith("[" + Tool("a") + "," + Tool("b") + "," + Tool("c") + "]"))),
              StartsWith("chat.tools_json: expected at most 2 tools, got 3"));
  // Tools count as messages do.
  const ChatPrompt chat = ChatWith("[" + Tool("a") + "]");
  limits_.max_prompt_bytes = static_cast<uint32_t>(chat.tools_json().size() + 5);
  EXPECT_EQ(Check(chat), absl::OkStatus());
  --limits_.max_prompt_bytes;
  EXPECT_THAT(Message(Check(chat)), StartsWith("chat.messages: expected at most"));
}

TEST_F(ToolChecksTest, AModelWhoseCallsCannotBeReadGetsNoTools) {
  model_.parses_calls = false;
  ChatPrompt chat = ChatWith("[" + Tool("f") + "]");
  const absl::Status status = Check(chat);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status),
              StartsWith("chat.tools_json: the way in which model \"tiny\" writes calls"));
  // It does not see these.
  chat.mutable_tool_choice()->set_mode(ToolChoice::NONE);
  EXPECT_EQ(Check(chat), absl::OkStatus());
}

TEST_F(ToolChecksTest, TheChoiceIsChecked) {
  ChatPrompt chat = ChatWith("[" + Tool("f") + "]");
  ToolChoice& choice = *chat.mutable_tool_choice();
  choice.set_single(true);
  EXPECT_EQ(Check(chat), absl::OkStatus());
  choice.set_function("f");
  EXPECT_THAT(Message(Check(chat)),
              StartsWith("chat.tool_choice.function: expected with mode REQUIRED only"));
  choice.set_mode(ToolChoice::REQUIRED);
  EXPECT_EQ(Check(chat), absl::OkStatus());
  choice.set_function("g");
  EXPECT_THAT(Message(Check(chat)), StartsWith("chat.tool_choice.function: expected the name of"));
  choice.clear_function();
  EXPECT_EQ(Check(chat), absl::OkStatus());
  choice.set_mode(static_cast<ToolChoice::Mode>(9));
  EXPECT_THAT(Message(Check(chat)), StartsWith("chat.tool_choice.mode: 9 is not known"));
  chat.clear_tools_json();
  EXPECT_THAT(Message(Check(chat)), StartsWith("chat.tool_choice: expected with tools only"));
}

TEST_F(ToolChecksTest, AForcedCallIsAConstraint) {
  lockstep::v1::GenerateRequest request;
  *request.mutable_chat() = ChatWith("[" + Tool("f") + "]");
  request.mutable_chat()->mutable_tool_choice()->set_mode(ToolChoice::REQUIRED);
  ModelFacts model = SmallModel();
  model.parses_calls = true;
  const absl::Status without_engine = CheckRequest(request, limits_, model);
  EXPECT_EQ(without_engine.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(without_engine),
              StartsWith("chat.tool_choice: a forced call needs a constraint engine"));
  model.enforces_constraints = true;
  EXPECT_EQ(CheckRequest(request, limits_, model), absl::OkStatus());
  request.mutable_sampling()->set_regex("a");
  const absl::Status beside = CheckRequest(request, limits_, model);
  EXPECT_EQ(beside.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(beside),
              Eq("chat.tool_choice: expected no forced call beside a constraint of the output"));
  request.clear_sampling();
  request.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(Message(CheckRequest(request, limits_, model)),
              StartsWith("stop.ignore_eos: expected false beside a forced call"));
}

struct MessageCase {
  const char* role;
  const char* calls;
  const char* id;
  const char* reasoning;
  const char* words;  // empty: it passes
};

TEST_F(ToolChecksTest, CallsResultsAndReasoningHaveTheirRoles) {
  const MessageCase cases[] = {
      {"assistant", "[]", "", "hm", ""},
      {"tool", "", "call_1", "", ""},
      {"tool", "", "", "", ""},
      {"user", "[]", "", "", "chat.messages[0].tool_calls_json: expected with role \"assistant\""},
      {"user", "", "", "hm", "chat.messages[0].reasoning: expected with role \"assistant\" only"},
      {"assistant", "", "1", "", "chat.messages[0].tool_call_id: expected with role \"tool\" only"},
  };
  for (const MessageCase& entry : cases) {
    SCOPED_TRACE(entry.words);
    ChatPrompt chat = ChatWith("");
    auto& message = *chat.mutable_messages(0);
    message.set_role(entry.role);
    message.set_tool_calls_json(entry.calls);
    message.set_tool_call_id(entry.id);
    message.set_reasoning(entry.reasoning);
    EXPECT_THAT(Message(Check(chat)), StartsWith(entry.words));
    EXPECT_EQ(Check(chat).ok(), *entry.words == '\0');
  }
  ChatPrompt chat = ChatWith("");
  chat.mutable_messages(0)->set_role("tool");
  chat.mutable_messages(0)->set_tool_call_id(std::string(257, 'a'));
  EXPECT_THAT(Message(Check(chat)),
              StartsWith("chat.messages[0].tool_call_id: expected at most 256 bytes, got 257"));
}

TEST_F(ToolChecksTest, AMessageWithCallsIsNotContinued) {
  ChatPrompt chat = ChatWith("");
  chat.set_continue_final_message(true);
  chat.mutable_messages(0)->set_role("assistant");
  EXPECT_EQ(Check(chat), absl::OkStatus());
  chat.mutable_messages(0)->set_tool_calls_json("[]");
  EXPECT_THAT(Message(Check(chat)), StartsWith("chat.continue_final_message: expected a last"));
}

}  // namespace
}  // namespace lockstep::router
