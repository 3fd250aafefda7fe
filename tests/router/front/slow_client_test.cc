#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "tests/router/front/http_client.h"
#include "tests/router/front/scripted_gateway.h"
#include "tests/router/front/scripted_server.h"

// Connections before a scripted gateway: clients that take their time, and what is counted.
namespace lockstep::testing {
namespace {

TEST(SlowClientTest, WhoTakesALargeAnswerLittleByLittleGetsAllOfIt) {
  router::ConnectionLimits limits = ScriptedServer::Limits();
  limits.write_timeout = absl::Seconds(1);
  ScriptedServer server(limits);
  HttpClient client(server.port());
  client.Send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  // Much slower than the kernels' buffers, which take megabytes at a time, in all several times the
  // limit. A busy machine may make each pause several times as long.
  boost::asio::io_context pace;
  size_t num_bytes = 0;
  for (int i = 0; i < 100; ++i) {
    boost::asio::steady_timer(pace, std::chrono::milliseconds(40)).wait();
    const size_t piece = client.ReadAtMost(32 << 10).size();
    ASSERT_GT(piece, 0u) << "after " << num_bytes;
    num_bytes += piece;
  }
  while (num_bytes < kLargeAnswerBytes) {
    const size_t piece = client.ReadAtMost(1 << 20).size();
    ASSERT_GT(piece, 0u) << "after " << num_bytes;
    num_bytes += piece;
  }
  EXPECT_GE(num_bytes, kLargeAnswerBytes);
}

TEST(SlowClientTest, WhoTakesNothingIsCutOff) {
  router::ConnectionLimits limits = ScriptedServer::Limits();
  limits.write_timeout = absl::Milliseconds(100);
  ScriptedServer server(limits);
  HttpClient client(server.port());
  client.Send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  while (server.CountOf("other", "200") == 0) std::this_thread::yield();
  EXPECT_FALSE(client.ReadResponse().complete);
}

TEST(SlowClientTest, BodiesShareABoundedMemoryUntilTheirAnswer) {
  ScriptedServer server(ScriptedServer::Limits());
  const std::string body(1 << 20, 'x');
  auto holder = std::make_unique<HttpClient>(server.port());
  holder->Send(HttpClient::PostText("/silent", body));
  while (server.metrics().requests_in_flight->Value() == 0) std::this_thread::yield();
  EXPECT_EQ(server.held_body_bytes(), body.size());
  const HttpResponse refused = HttpClient(server.port()).Post("/echo", "hi");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(HttpClient(server.port()).Get("/echo").status, 200);
  holder.reset();
  while (server.held_body_bytes() != 0) std::this_thread::yield();
  HttpClient next(server.port());
  EXPECT_EQ(next.Post("/echo", body).body, "POST " + body);
  EXPECT_EQ(next.Post("/echo", body).body, "POST " + body);
}

TEST(SlowClientTest, WhoIsRefusedForTheHeaderHoldsNoMemory) {
  ScriptedServer server(ScriptedServer::Limits());
  const std::string header = "POST /guarded HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n";
  HttpClient waiting(server.port());
  waiting.Send(header);
  const HttpResponse refused = waiting.ReadResponse();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  EXPECT_TRUE(waiting.WaitUntilClosed());
  HttpClient sending(server.port());
  sending.Send(header + std::string(512 << 10, 'x'));
  EXPECT_EQ(sending.ReadResponse().status, 401);
  EXPECT_EQ(server.held_body_bytes(), 0u);
  sending.Send(std::string(512 << 10, 'x'));
  EXPECT_TRUE(sending.WaitUntilClosed());
  EXPECT_EQ(server.held_body_bytes(), 0u);
  EXPECT_EQ(server.CountOf("other", "401"), 2);
  EXPECT_EQ(server.metrics().requests_in_flight->Value(), 0);
}

TEST(SlowClientTest, ARefusalForTheHeaderOfAHeadRequestHasNoBody) {
  ScriptedServer server(ScriptedServer::Limits());
  HttpClient client(server.port());
  client.Send("HEAD /guarded HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
  EXPECT_EQ(client.ReadHead().status, 401);
  EXPECT_EQ(client.ReadAtMost(1), "");
}

TEST(SlowClientTest, ARequestIsCountedByItsRouteAndStatus) {
  ScriptedServer server(ScriptedServer::Limits());
  {
    HttpClient client(server.port());
    client.Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(client.ReadResponse().status, 404);
    client.Send("GET /v1/models/x HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(client.ReadResponse().status, 404);
    client.Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    EXPECT_EQ(client.ReadResponse().body, "POST hi");
    client.Send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    while (server.metrics().requests_in_flight->Value() != 1) std::this_thread::yield();
    EXPECT_EQ(server.metrics().connections->Value(), 1);
  }
  while (server.metrics().connections->Value() != 0) std::this_thread::yield();
  EXPECT_EQ(server.metrics().requests_in_flight->Value(), 0);
  HttpClient bad(server.port());
  bad.Send("nonsense\r\n\r\n");
  EXPECT_TRUE(bad.WaitUntilClosed());
  EXPECT_EQ(server.CountOf("/health", "404"), 1);
  EXPECT_EQ(server.CountOf("/v1/models", "404"), 1);
  EXPECT_EQ(server.CountOf("other", "200"), 1);
  EXPECT_EQ(server.CountOf("other", "499"), 1);
  EXPECT_EQ(server.CountOf("other", "400"), 1);
  EXPECT_EQ(server.CountOf("/health", "200"), 0);
  EXPECT_EQ(server.held_body_bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::testing
