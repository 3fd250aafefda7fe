#include "router/front/http1/request_reader.h"

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
    return "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(announced_bytes) +
           "\r\n\r\n";
  }
  RequestReader MakeReader() { return RequestReader(kMaxBodyBytes, memory_); }

  ByteBudget memory_{kMemoryBytes};
};

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

// Every one of these is read in two ways somewhere, or is none.
TEST_F(RequestReaderTest, RefusesWhatOthersMightReadOtherwise) {
  const std::string_view chunks = "3\r\nabc\r\n0\r\n\r\n";
  const struct {
    std::string_view why;
    std::string head;
    std::string_view body = {};
  } cases[] = {
      {"another coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"},
      {"before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
       chunks},
      {"identity too", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n",
       chunks},
      {"behind chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
       chunks},
      {"twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
       chunks},
      {"in two fields",
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: "
       "chunked\r\n\r\n",
       chunks},
      {"twice, in two fields",
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
       "chunked\r\n\r\n",
       chunks},
      {"with parameters", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n",
       chunks},
      {"in quotes", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", chunks},
      {"an empty element", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n",
       chunks},
      {"a vertical tab", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \vchunked\r\n\r\n",
       chunks},
      {"empty", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n\r\n"},
      {"in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", chunks},
      {"a length before it",
       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
       chunks},
      {"a length behind it",
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
       chunks},
      {"a length and another coding",
       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\n\r\n", "abc"},
      {"two lengths",
       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "abc"},
      {"the same length twice",
       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", "abc"},
      {"a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n", "abc"},
      {"a sign", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n", "abc"},
      {"a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n", "abc"},
      {"a hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\n", "abc"},
      {"a fraction", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3.0\r\n\r\n", "abc"},
      {"two numbers", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3 3\r\n\r\n", "abc"},
      {"no number", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", "abc"},
      {"2^64", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n", "abc"},
      {"a folded line", "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"},
      {"one folded by a tab", "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n"},
      {"a folded coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
       chunks},
      {"a folded length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 3\r\n\r\n", "abc"},
      {"an empty folded line",
       "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n \r\nContent-Length: 3\r\n\r\n", "abc"},
      {"a first line with space before it", "POST / HTTP/1.1\r\n X: a\r\n\r\n"},
      {"space before a colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\n", "abc"},
      {"a tab before a colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n",
       chunks},
      {"a line without a colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length\r\n\r\n"},
      {"a name in two words", "POST / HTTP/1.1\r\nHost: a\r\nContent Length: 3\r\n\r\n", "abc"},
      {"no name", "POST / HTTP/1.1\r\nHost: a\r\n: 3\r\n\r\n"},
      {"bare line feeds", "POST / HTTP/1.1\nContent-Length: 3\n\n", "abc\r\n\r\n"},
      {"a bare line feed behind a field",
       "POST / HTTP/1.1\r\nHost: a\r\nX: a\nContent-Length: 3\r\n\r\n", "abc"},
      {"a bare line feed behind the request", "POST / HTTP/1.1\nX: a\r\n\r\n"},
      {"a bare carriage return", "POST / HTTP/1.1\r\nHost: a\r\nX: a\rY: b\r\n\r\n"},
      {"two carriage returns", "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\r\n\r\n"},
      {"a zero byte", std::string("POST / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 36)},
      {"two hosts", "POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
      {"another version", "POST / HTTP/1.2\r\n\r\n"},
      {"no version", "GET /\r\n\r\n"},
      {"an old version", "GET / HTTP/0.9\r\n\r\n"},
      {"two spaces", "POST  / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"a tab between", "POST\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"more behind the version", "POST / HTTP/1.1 x\r\n\r\n"},
      {"the start of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
  };
  for (const auto& [why, head, body] : cases) {
    for (const size_t piece_bytes : {size_t{1}, size_t{7}, size_t{4096}}) {
      RequestReader reader = MakeReader();
      std::string text = head;
      text += body;
      ASSERT_EQ(Feed(reader, text, piece_bytes), State::kRefused) << why << " by " << piece_bytes;
      EXPECT_EQ(reader.refusal().http_status, 400) << why;
      EXPECT_LE(reader.refusal().message.size(), 100u);
      EXPECT_EQ(memory_.held_bytes(), 0u);
    }
  }
}

TEST_F(RequestReaderTest, RefusesChunksThatOthersMightReadOtherwise) {
  for (const std::string_view chunks : {"3\nabc\r\n0\r\n\r\n",
                                        "3\r\nabc\n0\r\n\r\n",
                                        "3\r\nabcd\r\n0\r\n\r\n",
                                        "-3\r\nabc\r\n",
                                        "0x3\r\nabc\r\n0\r\n\r\n",
                                        " 3\r\nabc\r\n0\r\n\r\n",
                                        "\r\n3\r\nabc\r\n",
                                        "x\r\n",
                                        "fffffffffffffffff\r\n",
                                        "3\rabc\r\n0\r\n\r\n",
                                        "3\r\nabc\r\n0\r\nT: a\r\n b\r\n\r\n",
                                        "3\r\nabc\r\n0\r\nT : a\r\n\r\n",
                                        "3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n",
                                        "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
                                        "3\r\nabc\r\n0\r\nT: a\nU: b\r\n\r\n",
                                        "3;a=\"b\r\nabc\r\n0\r\n\r\n",
                                        "3;a=\"\x01\"\r\nabc\r\n0\r\n\r\n",
                                        "3;a=\"\\\r\nabc\r\n0\r\n\r\n",
                                        "3;\r\nabc\r\n",
                                        "3 ;a b\r\nabc\r\n",
                                        "3\r\nabc\r\n0;a=\"b\r\n\r\n",
                                        "3\r\nabc\r\n0;\r\n\r\n"}) {
    for (const size_t piece_bytes : {size_t{1}, size_t{4096}}) {
      RequestReader reader = MakeReader();
      const std::string text =
          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks);
      ASSERT_EQ(Feed(reader, text, piece_bytes), State::kRefused)
          << chunks << " by " << piece_bytes;
      EXPECT_TRUE(reader.refusal().http_status == 400 || reader.refusal().http_status == 413);
    }
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

TEST_F(RequestReaderTest, ATargetThatIsTooLongHasItsOwnStatus) {
  const std::string much(20'000, 'x');
  for (const size_t piece_bytes : {size_t{7}, size_t{4096}}) {
    for (const auto& [text, status] :
         {std::pair("GET /" + much, 414), std::pair("GET / HTTP/1.1\r\nHost: " + much, 431)}) {
      RequestReader reader = MakeReader();
      State state = State::kNothing;
      for (size_t at = 0; at < text.size() && state != State::kRefused; at += piece_bytes) {
        state = Feed(reader, std::string_view(text).substr(at, piece_bytes));
      }
      ASSERT_EQ(state, State::kRefused);
      EXPECT_EQ(reader.refusal().http_status, status);
    }
  }
}

TEST_F(RequestReaderTest, TheCodingsOfABodyAreOneList) {
  RequestReader reader = MakeReader();
  ASSERT_EQ(Feed(reader,
                 "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: deflate\r\n"
                 "content-encoding:\tgzip \r\nContent-Length: 0\r\n\r\n"),
            State::kRequest);
  EXPECT_EQ(reader.Take().http.content_encoding, "deflate,gzip");
}

TEST_F(RequestReaderTest, ARefusedHeadRequestGetsNoContent) {
  for (const auto& [method, head_only] : {std::pair("HEAD", true), std::pair("GET", false)}) {
    RequestReader reader = MakeReader();
    ASSERT_EQ(Feed(reader, std::string(method) + " / HTTP/1.1\r\n\r\n"), State::kRefused);
    EXPECT_EQ(reader.refusal().head_only, head_only);
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
