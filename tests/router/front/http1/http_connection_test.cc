#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/router/http/http_fixture.h"

// Connections: many requests on one, and clients that leave, stall, or send what they should not.
namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

const char kPath[] = "/v1/completions";
const char kShort[] = R"({"prompt": "x", "max_tokens": 2})";

class HttpConnectionTest : public HttpServingTest {
 protected:
  // An answer many times larger than what sockets hold, to a client that reads nothing.
  static std::string Large(bool stream) {
    return std::string(
               R"({"prompt": "x", "max_tokens": 4000, "logprobs": 20, "n": 8, "stream": )") +
           (stream ? "true}" : "false}");
  }
  void ExpectHealthy() {
    EXPECT_EQ(Text(Post(kPath, kShort)), Continuation(2, 2));
    ExpectEverythingBack();
  }
  void ExpectNothingOpen() {
    Eventually("nothing is open",
               [this] { return router_->engine().admission().counts().open_requests == 0; });
  }
};

TEST_F(HttpConnectionTest, CarriesOneRequestAfterTheOther) {
  StartAll();
  HttpClient client(port());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Text(client.Post(kPath, kShort)), Continuation(2, 2));
    EXPECT_EQ(Text(client.Post(kPath, R"({"prompt": "x", "max_tokens": 3, "stream": true})")),
              Continuation(2, 3));
    EXPECT_EQ(client.Get("/v1/nothing").status, 404);
    EXPECT_EQ(client.Get("/health").status, 200);
  }
}

TEST_F(HttpConnectionTest, AnUpgradeToHttp2IsIgnored) {
  StartAll();
  HttpClient client(port());
  client.Send(
      "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "
      "h2c\r\n"
      "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().status, 200);
  EXPECT_EQ(client.Get("/health").status, 200);
}

TEST_F(HttpConnectionTest, OneAddressDoesNotTakeAllConnections) {
  http_config_.max_connections = 8;  // a quarter of them is two
  StartAll();
  HttpClient first(port());
  HttpClient second(port());
  EXPECT_EQ(first.Get("/health").status, 200);
  EXPECT_EQ(second.Get("/health").status, 200);
  EXPECT_TRUE(HttpClient(port()).WaitUntilClosed());
  EXPECT_EQ(first.Get("/health").status, 200);
}

TEST_F(HttpConnectionTest, PipelinedRequestsAreAnsweredInOrder) {
  StartAll();
  HttpClient client(port());
  client.Send(HttpClient::PostText(kPath, kShort) + HttpClient::PostText(kPath, kShort) +
              "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(2, 2));
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(2, 2));
  EXPECT_THAT(client.ReadResponse().body, HasSubstr("ok"));
}

TEST_F(HttpConnectionTest, WhoSendsTooMuchAheadIsCutOff) {
  StartAll();
  HoldForwards();
  HttpClient client(port());
  client.Send(HttpClient::PostText(kPath, kShort));
  Eventually("it runs", [this] { return router_->engine().replica_status().live_requests == 1; });
  client.Send(std::string(64 << 10, 'x'));
  EXPECT_TRUE(client.WaitUntilClosed());
  ReleaseForwards();
  ExpectNothingOpen();
  ExpectHealthy();
}

// The header grows the buffer in small steps; what comes with the body's last byte fills it.
TEST_F(HttpConnectionTest, WhoSendsTooMuchBehindALargeHeaderIsCutOff) {
  StartAll();
  HttpClient client(port());
  std::string header =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nX: ";
  header.resize(16'000, 'x');
  client.Send(header + "\r\n\r\n");
  client.Send("{" + std::string(24 << 10, 'x'));
  EXPECT_TRUE(client.WaitUntilClosed());
  ExpectNothingOpen();
  ExpectHealthy();
}

TEST_F(HttpConnectionTest, AHeadRequestGetsNoBody) {
  StartAll();
  HttpClient client(port());
  client.Send(
      "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: "
      "localhost\r\n\r\n");
  const auto head = client.ReadUntil("\r\n\r\n");
  ASSERT_TRUE(head.has_value());
  EXPECT_NE(head->find("200 OK"), std::string::npos) << *head;
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST_F(HttpConnectionTest, RefusesTransferEncodingsThatOthersMightReadOtherwise) {
  StartAll();
  for (const std::string_view coding : {"gzip", "chunked, identity", "chunked, gzip"}) {
    HttpClient client(port());
    client.Send(fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {}\r\n\r\n"
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        coding));
    EXPECT_EQ(client.ReadResponse().status, 400) << coding;
    EXPECT_TRUE(client.WaitUntilClosed());
  }
}

TEST_F(HttpConnectionTest, ClosesWhenAskedTo) {
  StartAll();
  HttpClient client(port());
  client.Send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().headers.at("connection"), "close");
  EXPECT_TRUE(client.WaitUntilClosed());
}

TEST_F(HttpConnectionTest, ServesHttp10WithoutChunks) {
  StartAll();
  HttpClient client(port());
  const std::string body = R"({"prompt": "x", "max_tokens": 3, "stream": true})";
  client.Send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const HttpResponse response = client.ReadResponse();
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  EXPECT_EQ(Text(response), Continuation(2, 3));
}

TEST_F(HttpConnectionTest, AnswersExpectContinueAndChunkedBodies) {
  StartAll();
  HttpClient client(port());
  const std::string body = kShort;
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: "
      "100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.ReadHead().status, 100);
  client.Send(body);
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(2, 2));
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n20\r\n" +
      body + "\r\n0\r\n\r\n");
  ASSERT_EQ(body.size(), 0x20u);
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(2, 2));
}

TEST_F(HttpConnectionTest, AClientThatLeavesMidStreamCancelsItsRequest) {
  StartAll();
  HoldForwards();
  auto client = std::make_unique<HttpClient>(port());
  client->Send(
      HttpClient::PostText(kPath, R"({"prompt": "Hello", "max_tokens": 1000, "stream": true})"));
  AllowForwards(3);
  ASSERT_TRUE(client->ReadUntil("\"text\":").has_value());
  client.reset();
  Eventually("the router noticed", [this] {
    return router::RouterMetrics::At(metrics_.requests_total, absl::StatusCode::kCancelled)
               .Value() == 1;
  });
  ReleaseForwards();
  ExpectEverythingBack();
  EXPECT_LT(metrics_.generation_tokens_total->Value(), 1000);
}

TEST_F(HttpConnectionTest, AClientThatLeavesBeforeItsAnswerCancelsEveryPrompt) {
  StartAll();
  HoldForwards();
  auto client = std::make_unique<HttpClient>(port());
  client->Send(HttpClient::PostText(kPath, R"({"prompt": ["a", "b", "c"], "max_tokens": 1000})"));
  Eventually("they run", [this] { return router_->engine().replica_status().live_requests == 3; });
  client.reset();
  Eventually("the router noticed", [this] {
    return router::RouterMetrics::At(metrics_.requests_total, absl::StatusCode::kCancelled)
               .Value() == 3;
  });
  ReleaseForwards();
  ExpectHealthy();
}

TEST_F(HttpConnectionTest, ASlowReaderStopsNobodyAndIsCutOff) {
  router_config_.api.stalled_client_timeout = absl::Milliseconds(100);
  StartAll();
  std::vector<std::unique_ptr<HttpClient>> stuck;
  for (const bool stream : {true, false, true}) {
    stuck.push_back(std::make_unique<HttpClient>(port()));
    stuck.back()->Send(HttpClient::PostText(kPath, Large(stream)));
  }
  EXPECT_EQ(Text(Post(kPath, kShort)), Continuation(2, 2));
  ExpectNothingOpen();
  // A client that began to read before its connection was cut off would get the rest.
  Eventually("the slow readers are cut off", [this] { return http_->held_bytes() == 0; });
  for (const auto& client : stuck) EXPECT_FALSE(client->ReadResponse().complete);
  ExpectHealthy();
}

TEST_F(HttpConnectionTest, MalformedRequestsAreRefused) {
  StartAll();
  const struct {
    std::string bytes;
    int status;
  } cases[] = {
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},  // TLS
      {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 400},                      // HTTP/2, but for a letter
      {"GET /health\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
       "1\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
       "chunked\r\n\r\nzz\r\n",
       400},
      {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n",
       413},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(17 << 10, 'x') + "\r\n\r\n",
       431},
  };
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.bytes.substr(0, 80));
    HttpClient client(port());
    client.Send(bad.bytes);
    const HttpResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, bad.status);
    EXPECT_THAT(response.body, HasSubstr(R"("error":{"message":)"));
    EXPECT_TRUE(client.WaitUntilClosed());
  }
  ExpectHealthy();
}

TEST_F(HttpConnectionTest, WhoSendsNothingOrTooSlowlyIsClosed) {
  http_config_.header_timeout = absl::Milliseconds(100);
  http_config_.body_timeout = absl::Milliseconds(100);
  http_config_.idle_timeout = absl::Milliseconds(100);
  StartAll();
  for (const std::string start :
       {"", "GET /health HT",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"}) {
    HttpClient client(port());
    client.Send(start);
    EXPECT_TRUE(client.WaitUntilClosed()) << start;
  }
  HttpClient idle(port());
  EXPECT_EQ(idle.Get("/health").status, 200);
  EXPECT_TRUE(idle.WaitUntilClosed());
}

TEST_F(HttpConnectionTest, OneConnectionTooManyIsClosed) {
  http_config_.max_connections = 2;
  http_config_.max_connections_per_address = 0;
  StartAll();
  HttpClient first(port());
  HttpClient second(port());
  EXPECT_EQ(first.Get("/health").status, 200);
  EXPECT_EQ(second.Get("/health").status, 200);
  HttpClient third(port());
  EXPECT_TRUE(third.WaitUntilClosed());
  EXPECT_EQ(first.Get("/health").status, 200);
}

TEST_F(HttpConnectionTest, WhatIsAnnouncedTakesNothingFromOthers) {
  http_config_.max_connection_memory_mib = 1;
  StartAll();
  HttpClient announcer(port());
  announcer.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 524288\r\nExpect: "
      "100-continue\r\n"
      "\r\n");
  EXPECT_EQ(announcer.ReadHead().status, 100);
  HttpClient other(port());
  const HttpResponse served = other.Post(kPath, kShort);
  ASSERT_EQ(served.status, 200) << served.body;
  EXPECT_EQ(Text(served), Continuation(2, 2));
  // What a request held is given back at the latest when the next one of its connection is read.
  EXPECT_EQ(other.Get("/health").status, 200);
  ExpectNothingOpen();
  announcer.Send(std::string(1 << 19, ' '));
  EXPECT_EQ(announcer.ReadResponse().status, 400);  // no JSON
  EXPECT_EQ(announcer.Get("/health").status, 200);
  ExpectHealthy();
}

TEST_F(HttpConnectionTest, AWholeAnswerIsBounded) {
  http_config_.max_whole_answer_bytes = 20'000;
  StartAll();
  const std::string fields = R"({"prompt": "x", "max_tokens": 1000, "logprobs": 5)";
  const HttpResponse whole = Post(kPath, fields + "}");
  EXPECT_EQ(whole.status, 400) << whole.body;
  EXPECT_EQ(Json(whole)["error"]["param"], "stream");
  EXPECT_THAT(whole.body, HasSubstr("20000 bytes"));
  ExpectNothingOpen();
  EXPECT_EQ(Text(Post(kPath, fields + R"(, "stream": true})")), Continuation(2, 1000));
  ExpectHealthy();
}

TEST_F(HttpConnectionTest, WholeAnswersShareABoundedMemory) {
  http_config_.max_connection_memory_mib = 1;
  StartAll();
  const HttpResponse refused = Post(kPath, Large(false));
  EXPECT_EQ(refused.status, 429) << refused.body.substr(0, 200);
  EXPECT_THAT(refused.body, HasSubstr("other answers"));
  ExpectNothingOpen();
  EXPECT_EQ(Text(Post(kPath, R"({"prompt": "x", "max_tokens": 1000, "logprobs": 5})")),
            Continuation(2, 1000));
  ExpectHealthy();
}

TEST_F(HttpConnectionTest, ManyConnectionsAtOnce) {
  StartAll();
  std::vector<std::unique_ptr<HttpClient>> clients;
  const std::string body = R"({"prompt": "Hello", "max_tokens": 40, "stream": true})";
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->Send(HttpClient::PostText(kPath, body));
  }
  for (const auto& client : clients) EXPECT_EQ(Text(client->ReadResponse()), Continuation(6, 40));
  ExpectEverythingBack();
}

TEST_F(HttpConnectionTest, TheGatewayMayEndWhileRequestsRun) {
  StartAll();
  HoldForwards();
  HttpClient streaming(port());
  streaming.Send(
      HttpClient::PostText(kPath, R"({"prompt": "Hello", "max_tokens": 1000, "stream": true})"));
  HttpClient waiting(port());
  waiting.Send(HttpClient::PostText(kPath, R"({"prompt": "Hello", "max_tokens": 1000})"));
  Eventually("they run", [this] { return router_->engine().replica_status().live_requests == 2; });
  http_.reset();
  EXPECT_TRUE(streaming.WaitUntilClosed());
  EXPECT_TRUE(waiting.WaitUntilClosed());
  ReleaseForwards();
  ExpectEverythingBack();
}

// The end of the server and outputs of requests meet in every order; none may wait for another.
TEST_F(HttpConnectionTest, TheGatewayEndsWhileStreamsRun) {
  StartAll();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<HttpClient>(port()));
      clients.back()->Send(
          HttpClient::PostText(kPath, R"({"prompt": "x", "max_tokens": 4000, "stream": true})"));
    }
    ASSERT_TRUE(clients[0]->ReadUntil("\"text\":").has_value());
    http_.reset();
    StartHttp();
  }
  ExpectHealthy();
}

}  // namespace
}  // namespace lockstep::testing
