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

TEST_F(RequestReaderTest, ATraceIsReadFromItsHeaders) {
  const std::string parent =
      "TraceParent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
  const std::string begin = "POST /p HTTP/1.1\r\nHost: a\r\nTracestate: a=1\r\n" + parent;
  RequestReader reader = MakeReader();
  ASSERT_EQ(Feed(reader, begin + "tracestate: b=2\r\n\r\n"), State::kRequest);
  const std::optional<TraceContext> trace = reader.Take().http.trace;
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(HexOf(trace->parent_span_id), "00f067aa0ba902b7");
  EXPECT_EQ(trace->trace_state, "a=1,b=2");
  // Of two parents nobody could say which one counts.
  ASSERT_EQ(Feed(reader, begin + parent + "\r\n"), State::kRequest);
  EXPECT_FALSE(reader.Take().http.trace.has_value());
  ASSERT_EQ(Feed(reader, "POST /p HTTP/1.1\r\nHost: a\r\nTraceparent: x\r\n\r\n"), State::kRequest);
  EXPECT_FALSE(reader.Take().http.trace.has_value());
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

TEST_F(RequestReaderTest, AChunkedBodyIsHeldAsItComesToo) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(
      Feed(reader, "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc"),
      State::kBody);
  EXPECT_LE(memory_.held_bytes(), 4096u);
  EXPECT_EQ(Feed(reader, std::string(65'535 - 3, 'x') + "\r\nffff\r\n"), State::kRefused);
  EXPECT_EQ(reader.refusal().http_status, 413);
  EXPECT_EQ(memory_.held_bytes(), 0u);
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
  for (const std::string_view text : {"GET /p HTTP/1.1\r\nHost: a\r\n\r\n",
                                      "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"}) {
    RequestReader reader = MakeReader();
    reader.Append(boost::asio::buffer(text));
    ASSERT_EQ(reader.Advance(), State::kRequest) << text;
    EXPECT_FALSE(reader.Take().http.body_follows);
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
      EXPECT_EQ(reader.Take().http.body, "abc");
      reader.Release();
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
  const RequestReader::Request request = reader.Take();
  EXPECT_EQ(request.http.authorization, "Bearer k");
  EXPECT_EQ(request.http.request_id, "");
}

TEST_F(RequestReaderTest, SaysHowMuchIsAnnounced) {
  RequestReader sized = MakeReader();
  sized.Append(boost::asio::buffer(Post(70'000)));
  ASSERT_EQ(sized.Advance(), State::kBodyFollows);
  EXPECT_EQ(sized.Header().http.announced_body_bytes, 70'000u);
  RequestReader chunked = MakeReader();
  const std::string_view text = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  chunked.Append(boost::asio::buffer(text));
  ASSERT_EQ(chunked.Advance(), State::kBodyFollows);
  EXPECT_EQ(chunked.Header().http.announced_body_bytes, UINT64_MAX);
}

TEST_F(RequestReaderTest, AFewEmptyLinesBeforeARequestSayNothing) {
  const std::string request = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
  for (const size_t piece_bytes : {size_t{1}, size_t{3}, size_t{4096}}) {
    RequestReader reader = MakeReader();
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(Feed(reader, "\r\n\r\n" + request, piece_bytes), State::kRequest) << piece_bytes;
      EXPECT_EQ(reader.Take().http.path, "/p");
      reader.Release();
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

TEST_F(RequestReaderTest, AskingBeforeTheBodyIsSaidOnce) {
  RequestReader reader = MakeReader();
  EXPECT_EQ(Feed(reader,
                 "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n"),
            State::kBody);
  EXPECT_TRUE(reader.TakeExpectContinue());
  EXPECT_FALSE(reader.TakeExpectContinue());
  // HTTP/1.0 has no such words (RFC 9110, 10.1.1).
  RequestReader old = MakeReader();
  EXPECT_EQ(Feed(old, "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
            State::kBody);
  EXPECT_FALSE(old.TakeExpectContinue());
}

}  // namespace
}  // namespace lockstep::router
