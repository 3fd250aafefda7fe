#include "router/http/request_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using State = RequestReader::State;

constexpr size_t kMaxBodyBytes = 100'000;
constexpr size_t kMemoryBytes = 150'000;

class RequestReaderTest : public ::testing::Test {
 protected:
  // In pieces as large as the reader takes, or `piece_bytes`; bodies are wanted.
  static State Feed(RequestReader& reader, std::string_view bytes, size_t piece_bytes = SIZE_MAX) {
    State state = State::kNothing;
    while (!bytes.empty()) {
      const auto piece = bytes.substr(0, piece_bytes);
      const size_t size = boost::asio::buffer_copy(reader.Prepare(), boost::asio::buffer(piece));
      reader.Commit(size);
      bytes.remove_prefix(size);
      state = reader.Advance();
      if (state == State::kBodyFollows) state = reader.Advance();
    }
    return state;
  }
  static std::string Post(size_t announced_bytes) {
    return "POST /p HTTP/1.1\r\nContent-Length: " + std::to_string(announced_bytes) + "\r\n\r\n";
  }
  RequestReader MakeReader() { return RequestReader(kMaxBodyBytes, memory_); }

  ByteBudget memory_{kMemoryBytes};
};

TEST_F(RequestReaderTest, ReadsRequestsInPiecesOfAnySize) {
  const std::string text =
      "POST /a?q=1 HTTP/1.1\r\nX-Request-Id: r\r\nAuthorization: Bearer k\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n"
      "HEAD /b HTTP/1.0\r\n\r\n";
  for (const size_t piece_bytes : {1, 2, 7, 64, 4096}) {
    RequestReader reader = MakeReader();
    std::vector<std::string> requests;
    for (size_t at = 0; at < text.size(); at += piece_bytes) {
      State state = Feed(reader, std::string_view(text).substr(at, piece_bytes));
      for (; state == State::kRequest; state = reader.Advance()) {
        const RequestReader::Request request = reader.Take();
        requests.push_back(request.http.method + request.http.path + request.http.body +
                           request.http.request_id + request.http.authorization +
                           (request.keep_alive ? "+" : "-") + (request.http_1_0 ? "0" : "1") +
                           (request.head_only ? "h" : ""));
      }
    }
    EXPECT_THAT(requests, ElementsAre("POST/aabcderBearer k+1", "HEAD/b-0h")) << piece_bytes;
  }
}

TEST_F(RequestReaderTest, WhatIsAnnouncedIsNotHeldBeforeItComes) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(Feed(reader, Post(kMaxBodyBytes)), State::kBody);
  EXPECT_EQ(memory_.held_bytes(), 0u);
  EXPECT_EQ(Feed(reader, "x"), State::kBody);
  EXPECT_LE(memory_.held_bytes(), 4096u);
  EXPECT_EQ(Feed(reader, std::string(20'000, 'x')), State::kBody);
  EXPECT_GE(memory_.held_bytes(), 20'001u);
  EXPECT_LE(memory_.held_bytes(), 2 * 20'001u);
  EXPECT_EQ(Feed(reader, std::string(kMaxBodyBytes - 20'001, 'x')), State::kRequest);
  EXPECT_EQ(memory_.held_bytes(), kMaxBodyBytes);
  EXPECT_EQ(reader.Take().http.body, std::string(kMaxBodyBytes - 0, 'x'));
  reader.Release();
  EXPECT_EQ(memory_.held_bytes(), 0u);
}

TEST_F(RequestReaderTest, BodiesTogetherAreBounded) {
  RequestReader first = MakeReader();
  EXPECT_EQ(Feed(first, Post(kMaxBodyBytes) + std::string(kMaxBodyBytes, 'x')), State::kRequest);
  RequestReader second = MakeReader();
  EXPECT_EQ(Feed(second, Post(kMaxBodyBytes) + std::string(70'000, 'x')), State::kRefused);
  EXPECT_EQ(second.refusal().http_status, 503);
  EXPECT_EQ(memory_.held_bytes(), kMaxBodyBytes);
  RequestReader third = MakeReader();
  EXPECT_EQ(Feed(third, Post(40'000) + std::string(40'000, 'x')), State::kRequest);
}

TEST_F(RequestReaderTest, AChunkedBodyIsHeldAsItComesToo) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(Feed(reader, "POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc"),
            State::kBody);
  EXPECT_LE(memory_.held_bytes(), 4096u);
  EXPECT_EQ(Feed(reader, std::string(65'535 - 3, 'x') + "\r\nffff\r\n"), State::kRefused);
  EXPECT_EQ(reader.refusal().http_status, 413);
  EXPECT_EQ(memory_.held_bytes(), 0u);
}

TEST_F(RequestReaderTest, ALineOfAChunkHasALimit) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(Feed(reader, "POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                             std::string(20'000, 'x')),
            State::kRefused);
  EXPECT_EQ(reader.refusal().http_status, 431);
}

TEST_F(RequestReaderTest, ABodyIsAnnouncedOnceBeforeAnyOfItIsRead) {
  for (const std::string_view framing : {"Content-Length: 5", "Transfer-Encoding: chunked"}) {
    const bool chunked = framing.starts_with('T');
    const std::string text =
        fmt::format("POST /p?q HTTP/1.1\r\nAuthorization: Bearer k\r\n{}\r\n\r\n{}", framing,
                    chunked ? "5\r\nhello\r\n0\r\n\r\n" : "hello");
    RequestReader reader = MakeReader();
    reader.Append(boost::asio::buffer(text));
    ASSERT_EQ(reader.Advance(), State::kBodyFollows);
    EXPECT_EQ(reader.num_unread_bytes(), chunked ? 15u : 5u);
    EXPECT_EQ(memory_.held_bytes(), 0u);
    const RequestReader::Request header = reader.Header();
    EXPECT_EQ(header.http.method, "POST");
    EXPECT_EQ(header.http.path, "/p");
    EXPECT_EQ(header.http.authorization, "Bearer k");
    EXPECT_EQ(header.http.body, "");
    EXPECT_TRUE(header.http.body_follows);
    ASSERT_EQ(reader.Advance(), State::kRequest);
    const RequestReader::Request request = reader.Take();
    EXPECT_EQ(request.http.body, "hello");
    EXPECT_EQ(request.http.authorization, "Bearer k");
    EXPECT_FALSE(request.http.body_follows);
    EXPECT_EQ(reader.Advance(), State::kNothing);
  }
}

TEST_F(RequestReaderTest, AnEmptyBodyIsNotAnnounced) {
  for (const std::string_view text :
       {"GET /p HTTP/1.1\r\n\r\n", "POST /p HTTP/1.1\r\nContent-Length: 0\r\n\r\n"}) {
    RequestReader reader = MakeReader();
    reader.Append(boost::asio::buffer(text));
    ASSERT_EQ(reader.Advance(), State::kRequest) << text;
    EXPECT_FALSE(reader.Take().http.body_follows);
  }
}

TEST_F(RequestReaderTest, AskingBeforeTheBodyIsSaidOnce) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(Feed(reader, "POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n"),
            State::kBody);
  EXPECT_TRUE(reader.TakeExpectContinue());
  EXPECT_FALSE(reader.TakeExpectContinue());
}

}  // namespace
}  // namespace lockstep::router
