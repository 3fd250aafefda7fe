#include "common/caged/frame_io.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace lockstep {
namespace {

std::string Frame(std::string_view payload) {
  FrameWriter writer(payload.size());
  for (const char byte : payload) writer.Byte(byte);
  return writer.Finish();
}

TEST(FrameWriterTest, WritesLengthsBeforeBytes) {
  FrameWriter writer(0);
  writer.Byte('J');
  writer.Flag(true);
  writer.Flag(false);
  writer.Length(0x01020304);
  writer.String("ab");
  writer.String("");
  EXPECT_EQ(writer.Finish(), std::string("\x11\0\0\0J10\4\3\2\1\2\0\0\0ab\0\0\0\0", 21));
}

TEST(CagedAnswerTest, OnlyWholeAnswersAreRead) {
  const std::string whole("K\3\0\0\0abc", 8);
  ASSERT_TRUE(ParseCagedAnswer(whole).has_value());
  EXPECT_EQ(ParseCagedAnswer(whole)->text, "abc");
  EXPECT_FALSE(ParseCagedAnswer(whole)->failed);
  EXPECT_TRUE(ParseCagedAnswer(std::string("E\0\0\0\0", 5))->failed);
  EXPECT_FALSE(ParseCagedAnswer(std::string("X\0\0\0\0", 5)).has_value());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseCagedAnswer(whole.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(ParseCagedAnswer(whole + "x").has_value());
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
  const std::string frame = Frame("a job");
  EXPECT_EQ(SendFrame(ends_[0], frame, kNoPatience), FrameEnd::kDone);
  std::string payload;
  EXPECT_EQ(ReceivePayload(ends_[1], 100, payload, kNoPatience), FrameEnd::kDone);
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
}  // namespace lockstep
