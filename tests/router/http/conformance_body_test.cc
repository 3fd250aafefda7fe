#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/router/front/http2_asker.h"
#include "tests/router/http/conformance_fixture.h"
#include "tests/router/http/http_fixture.h"
#include "tests/support/compress.h"

// What RFC 9110 and 9112 say of bodies, over a socket, in both versions.
namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

// RFC 9112, 7.1.1.
TEST_F(ConformanceTest, ExtensionsOfChunksAreWellFormed) {
  StartAll();
  const std::string body = kTwoTokens;
  ASSERT_EQ(body.size(), 0x20u);
  const auto chunked = [&body](const std::string& extension, const std::string& last) {
    return fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "20{}\r\n{}\r\n0{}\r\n\r\n",
        extension, body, last);
  };
  for (const std::string good : {"", ";a", ";a=b", R"(;a="b c\"d")", " ;a = b"}) {
    EXPECT_EQ(Raw(chunked(good, "")).status, 200) << good;
    EXPECT_EQ(Raw(chunked("", good)).status, 200) << good;
  }
  for (const std::string bad : {";a=\"\x01\"", ";a=\"\x7f\"", ";a=\"b", ";", ";a b", "x"}) {
    EXPECT_EQ(Raw(chunked(bad, "")).status, 400) << bad;
    EXPECT_EQ(Raw(chunked("", bad)).status, 400) << bad;
  }
}

// RFC 9110, 8.4, 12.5.3 and 15.5.16.
TEST_F(ConformanceTest, CompressedBodiesAreReadOrTheirCodingIsNamed) {
  StartAll();
  const std::string gzip = Compressed(kTwoTokens, kGzip);
  const struct {
    std::string coding;
    std::string body;
    int status;
  } cases[] = {
      {"gzip", gzip, 200},
      {"GZIP", gzip, 200},
      {"x-gzip", gzip, 200},
      {"deflate", Compressed(kTwoTokens, kZlib), 200},
      {"deflate", Compressed(kTwoTokens, kRawDeflate), 200},
      {"identity", kTwoTokens, 200},
      {"identity, gzip", gzip, 200},
      {"gzip", kTwoTokens, 400},
      {"gzip", gzip.substr(0, 10), 400},
      {"gzip", gzip + "{}", 400},
      {"br", kTwoTokens, 415},
      {"zstd", kTwoTokens, 415},
      {"gzip, gzip", Compressed(gzip, kGzip), 415},
  };
  Http2Asker asker(port());
  for (const auto& [coding, body, status] : cases) {
    SCOPED_TRACE(coding);
    const HttpResponse response = Raw(Request(std::string("POST ") + kCompletionPath,
                                              "Content-Encoding: " + coding + "\r\n", body));
    EXPECT_EQ(response.status, status) << response.body;
    const Http2Asker::Answer answer = asker.Ask(
        Http2("POST", kCompletionPath, {{":authority", "localhost"}, {"content-encoding", coding}}),
        body);
    EXPECT_EQ(answer.status(), std::to_string(status)) << answer.body;
    if (status == 200) {
      EXPECT_EQ(Text(response), Continuation(2, 2));
    } else {
      EXPECT_THAT(response.body, HasSubstr(status == 415 ? coding : "the gzip data"));
    }
    if (status != 415) continue;
    EXPECT_EQ(response.headers.at("accept-encoding"), "gzip, deflate");
    EXPECT_EQ(answer.head().at("accept-encoding"), "gzip, deflate");
  }
  EXPECT_EQ(Json(Raw(Request("POST /tokenize", "Content-Encoding: gzip\r\n",
                             Compressed(R"({"prompt": "abc"})", kGzip))))["count"],
            4);
  ExpectEverythingBack();
}

TEST_F(ConformanceTest, WhatABodyBecomesIsBounded) {
  http_config_.max_connection_memory_mib = 16;
  StartAll();
  // In several turns, and whole in the end.
  const std::string prompt(3000, 'x');
  const std::string spaces =
      fmt::format(R"({{"prompt": "{}", {}"max_tokens": 1}})", prompt, std::string(2 << 20, ' '));
  const std::string gzip = "Content-Encoding: gzip\r\n";
  for (const std::string path : {"/v1/completions", "/tokenize"}) {
    const HttpResponse response = Raw(Request("POST " + path, gzip, Compressed(spaces, kGzip)));
    EXPECT_EQ(response.status, 200) << response.body;
    const HttpResponse bomb =
        Raw(Request("POST " + path, gzip, Compressed(std::string(64 << 20, ' '), kGzip)));
    EXPECT_TRUE(bomb.status == 413 || bomb.status == 429) << bomb.status << bomb.body;
  }
  EXPECT_EQ(Text(Post(kCompletionPath, kTwoTokens)), Continuation(2, 2));
  // A client may have read all of an answer before its server has noted that it is written.
  Eventually("the memory of every request is given back", [&] { return http_->held_bytes() == 0; });
  ExpectEverythingBack();
}

// RFC 9110, 10.1.1.
TEST_F(ConformanceTest, WhoWaitsToBeToldIsTold) {
  StartAll();
  Http2Asker asker(port());
  const Fields expects = {{":authority", "localhost"}, {"expect", "100-continue"}};
  const Http2Asker::Answer told = asker.Ask(Http2("POST", kCompletionPath, expects), kTwoTokens);
  ASSERT_EQ(told.heads.size(), 2u);
  EXPECT_EQ(told.heads[0].at(":status"), "100");
  EXPECT_FALSE(told.heads[0].contains("date"));
  EXPECT_EQ(told.status(), "200");
  // Refused for the header alone.
  Fields form = expects;
  form.emplace_back("content-type", "text/plain");
  const Http2Asker::Answer refused = asker.Ask(Http2("POST", kCompletionPath, form), kTwoTokens);
  ASSERT_EQ(refused.heads.size(), 1u);
  EXPECT_EQ(refused.status(), "415");
  // HTTP/1.0 has no such words.
  HttpClient old(port());
  old.Send(fmt::format("POST {} HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n{}",
                       kCompletionPath, std::string_view(kTwoTokens).size(), kTwoTokens));
  EXPECT_EQ(old.ReadHead().status, 200);
}

TEST_F(ConformanceTest, EventsAreNotHeldBack) {
  StartAll();
  const HttpResponse stream =
      Post(kCompletionPath, R"({"prompt": "x", "max_tokens": 2, "stream": true})");
  EXPECT_EQ(stream.headers.at("x-accel-buffering"), "no");
  EXPECT_EQ(stream.headers.at("cache-control"), "no-cache");
  EXPECT_FALSE(Post(kCompletionPath, kTwoTokens).headers.contains("x-accel-buffering"));
}

}  // namespace
}  // namespace lockstep::testing
