#include "router/front/http1/request_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/router/front/http1/request_reader_fixture.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;

TEST_F(RequestReaderTest, ReadsRequestsInPiecesOfAnySize) {
  const std::string text =
      "POST /a?q=1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: r\r\nAuthorization: Bearer k\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n"
      "HEAD /b HTTP/1.0\r\n\r\n";
  for (const size_t piece_bytes : {1, 2, 7, 64, 4096}) {
    RequestReader reader = MakeReader();
    std::vector<std::string> requests;
    for (size_t at = 0; at < text.size(); at += piece_bytes) {
      State state = Feed(reader, std::string_view(text).substr(at, piece_bytes));
      for (; state == State::kRequest; state = Advance(reader)) {
        requests.push_back(fmt::format("{}{}{}{}{}{}{}", Field(":method"), Field(":path"),
                                       body_.text, Field("x-request-id"), Field("authorization"),
                                       request_.keep_alive ? "+" : "-",
                                       request_.http_1_0 ? "0" : "1"));
        reader.StartNext();
      }
    }
    EXPECT_THAT(requests, ElementsAre("POST/aabcderBearer k+1", "HEAD/b-0")) << piece_bytes;
  }
}

TEST_F(RequestReaderTest, FieldsHaveTheNamesOfHttp2) {
  RequestReader reader = MakeReader();
  ASSERT_EQ(Feed(reader,
                 "GET http://b/p?q HTTP/1.1\r\nHost: a\r\nX-Y: 1\r\nContent-Type: t\r\nx-y:  2 \r\n"
                 "\r\n"),
            State::kRequest);
  std::vector<std::string> fields;
  for (size_t i = 0; i < request_.header.fields.size(); ++i) {
    const auto [name, value] = request_.header.fields[i];
    fields.push_back(fmt::format("{}={}", name, value));
  }
  EXPECT_THAT(fields, ElementsAre(":method=GET", ":path=/p", ":authority=b", "x-y=1", "x-y=2",
                                  "content-type=t"));
  EXPECT_FALSE(request_.header.http2);
}

TEST_F(RequestReaderTest, HeadersOfStrangersAreCountedUntilTheyAreComplete) {
  const std::string half = "POST /p HTTP/1.1\r\nHost: a\r\nX: " + std::string(5000, 'x');
  RequestReader reader = MakeReader();
  EXPECT_EQ(Feed(reader, half), State::kHeader);
  EXPECT_GE(memory_.strangers().held_bytes(), 5000u);
  EXPECT_EQ(Feed(reader, "\r\n\r\n"), State::kRequest);
  EXPECT_EQ(memory_.held_bytes(), 0u);
  ByteBudget::Share all(&memory_, &memory_.strangers());
  ASSERT_TRUE(all.Resize(kMemoryBytes / 2));
  RequestReader late = MakeReader();
  EXPECT_EQ(Feed(late, half), State::kRefused);
  EXPECT_EQ(late.refusal().http_status, 503);
}

TEST_F(RequestReaderTest, AChunkedBodyHasALimit) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(
      Feed(reader, "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc"),
      State::kBody);
  EXPECT_EQ(Feed(reader, std::string(65'535 - 3, 'x') + "\r\nffff\r\n"), State::kRefused);
  EXPECT_EQ(reader.refusal().http_status, 413);
  EXPECT_EQ(body_.text.size(), 65'535u);
}

TEST_F(RequestReaderTest, ALineOfAChunkHasALimit) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(Feed(reader, "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                             std::string(20'000, 'x')),
            State::kRefused);
  EXPECT_EQ(reader.refusal().http_status, 431);
}

TEST_F(RequestReaderTest, ABodyIsAnnouncedOnceBeforeAnyOfItIsRead) {
  for (const std::string_view framing : {"Content-Length: 5", "Transfer-Encoding: chunked"}) {
    const bool chunked = framing.starts_with('T');
    const std::string text =
        fmt::format("POST /p?q HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\n{}\r\n\r\n{}",
                    framing, chunked ? "5\r\nhello\r\n0\r\n\r\n" : "hello");
    RequestReader reader = MakeReader();
    reader.Append(boost::asio::buffer(text));
    ASSERT_EQ(reader.Advance(), State::kOpens);
    EXPECT_EQ(reader.num_unread_bytes(), chunked ? 15u : 5u);
    request_ = reader.Take();
    EXPECT_EQ(Field(":method"), "POST");
    EXPECT_EQ(Field(":path"), "/p");
    EXPECT_EQ(Field("authorization"), "Bearer k");
    EXPECT_FALSE(request_.header.ends);
    reader.PassBodyTo(body_);
    ASSERT_EQ(reader.Advance(), State::kRequest);
    EXPECT_EQ(body_.text, "hello");
    body_.text.clear();
    reader.StartNext();
    EXPECT_EQ(reader.Advance(), State::kNothing);
  }
}

TEST_F(RequestReaderTest, AnEmptyBodyIsNotAnnounced) {
  for (const std::string_view text : {"GET /p HTTP/1.1\r\nHost: a\r\n\r\n",
                                      "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"}) {
    RequestReader reader = MakeReader();
    ASSERT_EQ(Feed(reader, text), State::kRequest) << text;
    EXPECT_TRUE(request_.header.ends);
  }
}

TEST_F(RequestReaderTest, ReadsWhatIsReadAlikeEverywhere) {
  for (const std::string_view head :
       {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:CHUNKED "
        "\r\n\r\n003;a=b\r\nabc\r\n00\r\nT: v\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\t3 \r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0003\r\nX:\r\nY: a  b\t\r\n\r\nabc"}) {
    for (const size_t piece_bytes : {size_t{1}, size_t{4096}}) {
      RequestReader reader = MakeReader();
      ASSERT_EQ(Feed(reader, head, piece_bytes), State::kRequest) << head;
      EXPECT_EQ(body_.text, "abc");
    }
  }
}

TEST_F(RequestReaderTest, FieldsBehindABodySayNothing) {
  RequestReader reader = MakeReader();
  ASSERT_EQ(
      Feed(reader,
           "POST /p HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\nTransfer-Encoding: chunked"
           "\r\n\r\n0\r\nAuthorization: Bearer l\r\nX-Request-Id: r\r\n\r\n"),
      State::kRequest);
  EXPECT_EQ(Field("authorization"), "Bearer k");
  EXPECT_EQ(Field("x-request-id"), "");
}

TEST_F(RequestReaderTest, AFewEmptyLinesBeforeARequestSayNothing) {
  const std::string request = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
  for (const size_t piece_bytes : {size_t{1}, size_t{3}, size_t{4096}}) {
    RequestReader reader = MakeReader();
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(Feed(reader, "\r\n\r\n" + request, piece_bytes), State::kRequest) << piece_bytes;
      EXPECT_EQ(Field(":path"), "/p");
      reader.StartNext();
    }
    EXPECT_EQ(Feed(reader, "\r\n\r", piece_bytes), State::kNothing);
    EXPECT_EQ(memory_.held_bytes(), 0u);
    EXPECT_EQ(Feed(reader, "\n" + request, piece_bytes), State::kRequest);
  }
  for (const std::string lines :
       {"\n", "\r\r\n", " \r\n", "\r\n\n", "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n"}) {
    RequestReader reader = MakeReader();
    EXPECT_EQ(Feed(reader, lines + request), State::kRefused);
    EXPECT_EQ(reader.refusal().http_status, 400);
  }
}

}  // namespace
}  // namespace lockstep::router
