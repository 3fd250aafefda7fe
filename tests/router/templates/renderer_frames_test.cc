#include "router/templates/renderer_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "common/status.h"
#include "router/templates/frame_io.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

std::string PayloadOf(const std::string& frame) {
  EXPECT_GE(frame.size(), kFrameHeaderBytes);
  EXPECT_EQ(PayloadBytes(frame), frame.size() - kFrameHeaderBytes);
  return frame.substr(kFrameHeaderBytes);
}

TEST(RendererFramesTest, JobsComeBackAsTheyWere) {
  const auto load =
      ParseJob(PayloadOf(LoadFrame({.text = "{{ 1 }}", .bos_token = "<s>", .eos_token = ""})));
  ASSERT_TRUE(load.ok()) << load.status();
  const auto& source = std::get<TemplateSource>(*load);
  EXPECT_EQ(source.text, "{{ 1 }}");
  EXPECT_EQ(source.bos_token, "<s>");
  EXPECT_EQ(source.eos_token, "");

  const std::vector<ChatMessage> messages = {{"user", std::string("a\0b", 3), ""}, {"", "", "ann"}};
  const auto render = ParseJob(PayloadOf(*RenderFrame(
      messages, {.add_generation_prompt = false, .extra_arguments_json = R"({"a": 1})"})));
  ASSERT_TRUE(render.ok()) << render.status();
  const auto& job = std::get<RenderJob>(*render);
  EXPECT_FALSE(job.options.add_generation_prompt);
  EXPECT_EQ(job.options.extra_arguments_json, R"({"a": 1})");
  ASSERT_EQ(job.messages.size(), 2u);
  EXPECT_EQ(job.messages[0].content, std::string("a\0b", 3));
  EXPECT_EQ(job.messages[1].name, "ann");
}

TEST(RendererFramesTest, AnswersComeBackAsTheyWere) {
  EXPECT_EQ(ParseAnswer(PayloadOf(AnswerFrame(std::string("text")))).value_or("none"), "text");
  const auto error = ParseAnswer(PayloadOf(AnswerFrame(absl::InvalidArgumentError("no"))));
  EXPECT_EQ(error.status(), absl::InvalidArgumentError("no"));
}

TEST(RendererFramesTest, LongErrorsAreCutBetweenCharacters) {
  for (size_t padding = 0; padding < 4; ++padding) {
    std::string text(padding, 'x');
    while (text.size() < 2 * kMaxErrorBytes) text += "\u20AC";
    const auto error = ParseAnswer(PayloadOf(AnswerFrame(absl::InvalidArgumentError(text))));
    const std::string message = Message(error.status());
    EXPECT_LE(message.size(), kMaxErrorBytes);
    EXPECT_GT(message.size(), kMaxErrorBytes - 4);
    EXPECT_EQ(message, text.substr(0, message.size()));
    EXPECT_EQ((message.size() - padding) % 3, 0u);
  }
}

TEST(RendererFramesTest, OtherBytesAreRefused) {
  const std::string answer = PayloadOf(AnswerFrame(std::string("text")));
  const std::string job = PayloadOf(*RenderFrame(std::vector<ChatMessage>{{"a", "b", "c"}}, {}));
  for (size_t size = 0; size < answer.size(); ++size) {
    EXPECT_TRUE(absl::IsInternal(ParseAnswer(answer.substr(0, size)).status())) << size;
  }
  for (size_t size = 0; size < job.size(); ++size) {
    EXPECT_FALSE(ParseJob(job.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseAnswer(answer + "x").ok());
  EXPECT_FALSE(ParseJob(job + "x").ok());
  // An error that is no text is not passed on.
  EXPECT_THAT(
      Message(ParseAnswer(PayloadOf(AnswerFrame(absl::InvalidArgumentError("\xFF")))).status()),
      HasSubstr("no text"));
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = i % 2 == 0 ? answer : job;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    ParseAnswer(bytes).status().IgnoreError();
    ParseJob(bytes).status().IgnoreError();
  }
}

TEST(RendererFramesTest, ChatsThatAreTooLongAreRefused) {
  const std::vector<ChatMessage> messages = {{"user", std::string(kMaxJobBytes, 'x'), ""}};
  EXPECT_EQ(RenderFrame(messages, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

class FrameIoTest : public ::testing::Test {
 protected:
  FrameIoTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
  ~FrameIoTest() override {
    close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }
  void CloseOther() {
    close(ends_[1]);
    ends_[1] = -1;
  }

  int ends_[2] = {-1, -1};
};

constexpr auto kNoPatience = [] { return 0; };

TEST_F(FrameIoTest, PassesFramesOn) {
  const std::string frame = AnswerFrame(std::string("text"));
  EXPECT_EQ(SendFrame(ends_[0], frame, kNoPatience), FrameEnd::kDone);
  std::string payload;
  EXPECT_EQ(ReceivePayload(ends_[1], kMaxAnswerBytes, payload, kNoPatience), FrameEnd::kDone);
  EXPECT_EQ(payload, frame.substr(kFrameHeaderBytes));
}

TEST_F(FrameIoTest, NeitherWaitsNorTrustsForEver) {
  std::string payload;
  EXPECT_EQ(ReceivePayload(ends_[0], 100, payload, kNoPatience), FrameEnd::kOverdue);
  const std::string large(1 << 22, 'x');  // more than a socket holds
  EXPECT_EQ(SendFrame(ends_[0], large, kNoPatience), FrameEnd::kOverdue);
}

TEST_F(FrameIoTest, AnnouncedLengthsAreBounded) {
  ASSERT_EQ(SendFrame(ends_[1], std::string("\x65\0\0\0", 4), kNoPatience), FrameEnd::kDone);
  std::string payload;
  EXPECT_EQ(ReceivePayload(ends_[0], 100, payload, kNoPatience), FrameEnd::kTooLong);
  EXPECT_LT(payload.capacity(), 101u);
}

TEST_F(FrameIoTest, TheOtherEndMayBeGone) {
  ASSERT_EQ(SendFrame(ends_[1], std::string("\x08\0\0\0half", 8), kNoPatience), FrameEnd::kDone);
  CloseOther();
  std::string payload;
  EXPECT_EQ(ReceivePayload(ends_[0], 100, payload, kNoPatience), FrameEnd::kClosed);
  EXPECT_EQ(SendFrame(ends_[0], "x", kNoPatience), FrameEnd::kClosed);
}

}  // namespace
}  // namespace lockstep::router
