#include "router/grpc/message_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::router {
namespace {

using State = MessageReader::State;

std::string Framed(const std::string& message, char flag = 0) {
  std::string bytes(kMessagePrefixBytes, '\0');
  WriteMessagePrefix(message.size(), bytes.data());
  bytes[0] = flag;
  return bytes + message;
}

class MessageReaderTest : public ::testing::Test {
 protected:
  ByteBudget memory_{1000};
  MessageReader reader_{800, memory_};
};

TEST_F(MessageReaderTest, MessagesComeInPiecesOfAnySize) {
  const std::string bytes = Framed("one") + Framed("") + Framed(std::string(300, 'x'));
  for (size_t size = 1; size < 320; size += 7) {
    MessageReader reader(800, memory_);
    std::vector<std::string> messages;
    for (size_t at = 0; at < bytes.size(); at += size) {
      std::string_view piece = std::string_view(bytes).substr(at, size);
      while (!piece.empty()) {
        const State state = reader.Read(piece);
        if (state == State::kMore) break;
        ASSERT_EQ(state, State::kMessage);
        messages.push_back(reader.Take().bytes);
      }
    }
    ASSERT_EQ(messages, (std::vector<std::string>{"one", "", std::string(300, 'x')})) << size;
    ASSERT_TRUE(reader.between_messages());
  }
  EXPECT_EQ(memory_.held_bytes(), 0u);
}

TEST_F(MessageReaderTest, WhatIsAnnouncedHasNoMemoryBeforeItComes) {
  const std::string bytes = Framed(std::string(800, 'x'));
  std::string_view start = std::string_view(bytes).substr(0, 10);
  EXPECT_EQ(reader_.Read(start), State::kMore);
  EXPECT_FALSE(reader_.between_messages());
  EXPECT_LE(memory_.held_bytes(), 512u);
  std::string_view rest = std::string_view(bytes).substr(10);
  EXPECT_EQ(reader_.Read(rest), State::kMessage);
  {
    const MessageReader::Message message = reader_.Take();
    EXPECT_EQ(memory_.held_bytes(), 800u);
  }
  EXPECT_EQ(memory_.held_bytes(), 0u);
}

TEST_F(MessageReaderTest, TooLargeIsSaidBeforeTheMessageComes) {
  const std::string bytes = Framed(std::string(801, 'x'));
  std::string_view prefix = std::string_view(bytes).substr(0, kMessagePrefixBytes);
  EXPECT_EQ(reader_.Read(prefix), State::kTooLarge);
  EXPECT_EQ(reader_.announced_bytes(), 801u);
}

TEST_F(MessageReaderTest, CompressedMessagesAreNotRead) {
  const std::string bytes = Framed("x", 1);
  std::string_view rest = bytes;
  EXPECT_EQ(reader_.Read(rest), State::kCompressed);
}

TEST_F(MessageReaderTest, OthersMayHaveTakenTheMemory) {
  ByteBudget::Share other(memory_);
  ASSERT_TRUE(other.Resize(500));
  const std::string bytes = Framed(std::string(600, 'x'));
  std::string_view rest = bytes;
  EXPECT_EQ(reader_.Read(rest), State::kNoRoom);
}

}  // namespace
}  // namespace lockstep::router
