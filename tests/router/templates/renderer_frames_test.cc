#include "router/templates/renderer_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/caged/frame_io.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

std::string PayloadOf(const std::string& frame) {
  EXPECT_GE(frame.size(), kFrameHeaderBytes);
  EXPECT_EQ(ReadLength(frame), frame.size() - kFrameHeaderBytes);
  return frame.substr(kFrameHeaderBytes);
}

std::string String(const std::string& text) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(text.size() >> shift);
  return out + text;
}
std::string Answer(char kind, const std::string& text) { return kind + String(text); }

// What renderer/frames.py reads.
TEST(RendererFramesTest, JobsAreWrittenAsTheRendererReadsThem) {
  EXPECT_EQ(PayloadOf(LoadFrame({.templates = {{"default", "{{ 1 }}"}, {"tool_use", ""}},
                                 .special_tokens_json = R"({"bos_token": "<s>"})"})),
            "L" + std::string("\2\0\0\0", 4) + String("default") + String("{{ 1 }}") +
                String("tool_use") + String("") + String(R"({"bos_token": "<s>"})"));
  const std::vector<ChatMessage> messages = {{"user", std::string("a\0b", 3), ""}, {"", "", "ann"}};
  const std::string nothing = String("");
  EXPECT_EQ(PayloadOf(*RenderFrame(messages, {.add_generation_prompt = false,
                                              .extra_arguments_json = R"({"a": 1})",
                                              .tools_json = "[{}]",
                                              .marked_characters = "<>"})),
            "R0" + String("<>") + String(R"({"a": 1})") + String("[{}]") +
                std::string("\2\0\0\0", 4) + String("user") + String(std::string("a\0b", 3)) +
                nothing + nothing + nothing + nothing + nothing + nothing + String("ann") +
                nothing + nothing + nothing);
  ChatMessage called = {"assistant", "", "", R"([{"id": "1"}])", "", "hm"};
  const ChatMessage result = {"tool", "4", "", "", "1", ""};
  EXPECT_EQ(PayloadOf(*RenderFrame(std::vector<ChatMessage>{called, result}, {})),
            "R1" + nothing + nothing + nothing + std::string("\2\0\0\0", 4) + String("assistant") +
                nothing + nothing + String(R"([{"id": "1"}])") + nothing + String("hm") +
                String("tool") + String("4") + nothing + nothing + String("1") + nothing);
}

TEST(RendererFramesTest, AnswersAreRead) {
  EXPECT_EQ(ParseAnswer(Answer('K', "text")).value_or("none"), "text");
  EXPECT_EQ(ParseAnswer(Answer('K', "")).value_or("none"), "");
  EXPECT_EQ(ParseAnswer(Answer('E', "no")).status(), absl::InvalidArgumentError("no"));
}

TEST(RendererFramesTest, OtherBytesAreRefused) {
  const std::string answer = Answer('K', "text");
  for (size_t size = 0; size < answer.size(); ++size) {
    EXPECT_TRUE(absl::IsInternal(ParseAnswer(answer.substr(0, size)).status())) << size;
  }
  EXPECT_TRUE(absl::IsInternal(ParseAnswer(answer + "x").status()));
  EXPECT_TRUE(absl::IsInternal(ParseAnswer(Answer('X', "text")).status()));
  // An error that is no text, or too long, is not passed on.
  EXPECT_THAT(Message(ParseAnswer(Answer('E', "\xFF")).status()), HasSubstr("no text"));
  EXPECT_THAT(Message(ParseAnswer(Answer('E', std::string(600, 'x'))).status()),
              HasSubstr("no text"));
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = answer;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    ParseAnswer(bytes).status().IgnoreError();
  }
}

TEST(RendererFramesTest, ChatsThatAreTooLongAreRefused) {
  const std::string too_long(kMaxJobBytes, 'x');
  EXPECT_EQ(RenderFrame(std::vector<ChatMessage>{{"user", too_long, ""}}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::vector<ChatMessage> short_chat = {{"user", "Hi", ""}};
  EXPECT_EQ(
      RenderFrame(short_chat,
                  {.extra_arguments_json = "", .tools_json = too_long, .marked_characters = ""})
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::router
