#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/front/http1/request_reader.h"
#include "tests/router/front/http1/request_reader_fixture.h"

namespace lockstep::router {
namespace {

// A request that is read in two ways somewhere, or is none.
struct Ambiguous {
  std::string_view why;
  std::string_view head;
  std::string_view body = {};
};

constexpr std::string_view kChunks = "3\r\nabc\r\n0\r\n\r\n";

constexpr Ambiguous kCodings[] = {
    {"another coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"},
    {"before chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
     kChunks},
    {"identity too", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n",
     kChunks},
    {"behind chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
     kChunks},
    {"twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", kChunks},
    {"in two fields",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: "
     "chunked\r\n\r\n",
     kChunks},
    {"twice, in two fields",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
     "chunked\r\n\r\n",
     kChunks},
    {"with parameters", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n",
     kChunks},
    {"in quotes", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", kChunks},
    {"an empty element", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n",
     kChunks},
    {"a vertical tab", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \vchunked\r\n\r\n",
     kChunks},
    {"empty", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n\r\n"},
    {"in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", kChunks},
    {"a length before it",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
     kChunks},
    {"a length behind it",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
     kChunks},
    {"a length and another coding",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\n\r\n", "abc"},
};

constexpr Ambiguous kLengths[] = {
    {"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
     "abc"},
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
};

constexpr Ambiguous kLines[] = {
    {"a folded line", "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"},
    {"one folded by a tab", "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n"},
    {"a folded coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
     kChunks},
    {"a folded length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 3\r\n\r\n", "abc"},
    {"an empty folded line", "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\n \r\nContent-Length: 3\r\n\r\n",
     "abc"},
    {"a first line with space before it", "POST / HTTP/1.1\r\n X: a\r\n\r\n"},
    {"space before a colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\n", "abc"},
    {"a tab before a colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n",
     kChunks},
    {"a line without a colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length\r\n\r\n"},
    {"a name in two words", "POST / HTTP/1.1\r\nHost: a\r\nContent Length: 3\r\n\r\n", "abc"},
    {"no name", "POST / HTTP/1.1\r\nHost: a\r\n: 3\r\n\r\n"},
    {"bare line feeds", "POST / HTTP/1.1\nContent-Length: 3\n\n", "abc\r\n\r\n"},
    {"a bare line feed behind a field",
     "POST / HTTP/1.1\r\nHost: a\r\nX: a\nContent-Length: 3\r\n\r\n", "abc"},
    {"a bare line feed behind the request", "POST / HTTP/1.1\nX: a\r\n\r\n"},
    {"a bare carriage return", "POST / HTTP/1.1\r\nHost: a\r\nX: a\rY: b\r\n\r\n"},
    {"two carriage returns", "POST / HTTP/1.1\r\nHost: a\r\nX: a\r\r\n\r\n"},
    {"a zero byte", std::string_view("POST / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 36)},
};

constexpr Ambiguous kFirstLines[] = {
    {"two hosts", "POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
    {"another version", "POST / HTTP/1.2\r\n\r\n"},
    {"no version", "GET /\r\n\r\n"},
    {"an old version", "GET / HTTP/0.9\r\n\r\n"},
    {"two spaces", "POST  / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a tab between", "POST\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"more behind the version", "POST / HTTP/1.1 x\r\n\r\n"},
    {"the start of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
};

TEST_F(RequestReaderTest, RefusesWhatOthersMightReadOtherwise) {
  std::vector<Ambiguous> cases;
  for (const std::span<const Ambiguous> some :
       {std::span<const Ambiguous>(kCodings), std::span<const Ambiguous>(kLengths),
        std::span<const Ambiguous>(kLines), std::span<const Ambiguous>(kFirstLines)}) {
    cases.insert(cases.end(), some.begin(), some.end());
  }
  for (const auto& [why, head, body] : cases) {
    for (const size_t piece_bytes : {size_t{1}, size_t{7}, size_t{4096}}) {
      RequestReader reader = MakeReader();
      std::string text(head);
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
  EXPECT_EQ(request_.header.fields.FindAll("content-encoding"), "deflate,gzip");
}

TEST_F(RequestReaderTest, ARefusedHeadRequestGetsNoContent) {
  for (const auto& [method, head_only] : {std::pair("HEAD", true), std::pair("GET", false)}) {
    RequestReader reader = MakeReader();
    ASSERT_EQ(Feed(reader, std::string(method) + " / HTTP/1.1\r\n\r\n"), State::kRefused);
    EXPECT_EQ(reader.refusal().head_only, head_only);
  }
}

}  // namespace
}  // namespace lockstep::router
