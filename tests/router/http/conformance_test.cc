#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/router/front/http2_asker.h"
#include "tests/router/http/conformance_fixture.h"
#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/test_tenants.h"

// What RFC 9110, 9112 and 9113 ask of a server, over a socket, in both versions.
namespace lockstep::testing {
namespace {

const std::vector<std::string> kGetPaths = {
    "/",           "/page.css", "/page.js", "/v1/models", "/v1/models/", "/v1/models/bytes",
    "/health",     "/ready",    "/ping",    "/version",   "/metrics",    "/tokenizer_info",
    "/status.json"};

TEST_F(ConformanceTest, EveryAnswerHasItsDate) {
  StartAll();
  const std::vector<std::string> requests = {
      Request("GET /health"),
      Request("HEAD /v1/models"),
      Request("OPTIONS *"),
      Request("POST /v1/completions", "", kTwoTokens),
      Request("POST /v1/completions", "", R"({"prompt": "x", "max_tokens": 2, "stream": true})"),
      Request("POST /v1/completions", "", "{}"),                 // 400
      Request("GET /nothing"),                                   // 404
      Request("PUT /health"),                                    // 405
      Request("POST /tokenize", "Content-Type: a/b\r\n", "{}"),  // 415
      "GET /health HTTP/1.1\r\n\r\n",                            // 400, by the connection
      "nothing\r\n\r\n",
      "GET /" + std::string(17 << 10, 'x') + " HTTP/1.1\r\n\r\n",  // 414
      "GET /health HTTP/1.0\r\n\r\n",
  };
  for (const std::string& request : requests) {
    SCOPED_TRACE(request.substr(0, 60));
    HttpClient client(port());
    client.Send(request);
    ExpectDate(client.ReadHead().headers);
  }
  Http2Asker asker(port());
  for (const Fields& fields :
       {Http2("GET", "/health"), Http2("HEAD", "/v1/models"), Http2("GET", "/nothing"),
        Http2("PUT", "/health"), Http2("GET", "/health", {{":authority", "x@y"}}),
        Http2("GET", "/health", {{":authority", "x"}, {"x", std::string(16'300, 'x')}}),
        Http2("POST", "/grpc.health.v1.Health/None",
              {{":authority", "localhost"}, {"content-type", "application/grpc"}})}) {
    const Http2Asker::Answer answer = asker.Ask(fields);
    ASSERT_FALSE(answer.heads.empty());
    ExpectDate(answer.head());
  }
}

// RFC 9110, 9.3.2: the same fields, and no content.
TEST_F(ConformanceTest, HeadIsGetWithoutContent) {
  StartAll();
  for (const std::string& path : kGetPaths) {
    SCOPED_TRACE(path);
    HttpClient client(port());
    client.Send(Request("HEAD " + path) + Request("GET " + path));
    HttpResponse head = client.ReadHead();
    HttpResponse get = client.ReadResponse();
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(get.status, 200);
    for (auto* const headers : {&head.headers, &get.headers}) {
      headers->erase("date");
      // These pages change from one moment to the next.
      if (path == "/metrics" || path == "/status.json") headers->erase("content-length");
    }
    EXPECT_EQ(head.headers, get.headers);
    Http2Asker asker(port());
    const Http2Asker::Answer answer = asker.Ask(Http2("HEAD", path));
    EXPECT_EQ(answer.status(), "200");
    EXPECT_EQ(answer.body, "");
    EXPECT_TRUE(answer.head().contains("content-length"));
  }
}

// RFC 9110, 9.3.7, 10.2.1 and 15.5.6.
TEST_F(ConformanceTest, MethodsOfAPathAreListed) {
  StartAll();
  std::map<std::string, std::string> allowed = {{"*", "GET, HEAD, POST, OPTIONS"}};
  for (const std::string& path : kGetPaths) allowed[path] = "GET, HEAD, OPTIONS";
  allowed["/ping"] = "GET, HEAD, POST, OPTIONS";
  for (const std::string path :
       {"/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/detokenize"}) {
    allowed[path] = "POST, OPTIONS";
  }
  for (const auto& [path, methods] : allowed) {
    SCOPED_TRACE(path);
    const HttpResponse options = Raw(Request("OPTIONS " + path));
    EXPECT_EQ(options.status, 200);
    EXPECT_EQ(options.headers.at("allow"), methods);
    EXPECT_EQ(options.body, "");
    Http2Asker asker(port());
    EXPECT_EQ(asker.Ask(Http2("OPTIONS", path)).head().at("allow"), methods);
    if (path == "*") continue;
    for (const std::string method : {"PUT", "DELETE", "PATCH", "TRACE"}) {
      const HttpResponse refused = Raw(Request(method + " " + path));
      EXPECT_EQ(refused.status, 405) << method;
      EXPECT_EQ(refused.headers.at("allow"), methods) << method;
    }
  }
  EXPECT_EQ(Raw(Request("OPTIONS /nothing")).status, 404);
}

// RFC 9110, 9.1 and 15.6.2.
TEST_F(ConformanceTest, MethodsOfNoPathAreNotImplemented) {
  StartAll();
  for (const std::string line : {"FOO /v1/models", "get /v1/models", "PROPFIND /", "FOO /nothing",
                                 "CONNECT example.com:443", "CONNECT /v1/models"}) {
    EXPECT_EQ(Raw(Request(line)).status, 501) << line;
  }
  Http2Asker asker(port());
  EXPECT_EQ(asker.Ask(Http2("FOO", "/v1/models")).head().at(":status"), "501");
}

TEST_F(ConformanceTest, WithKeysTheMethodsAreForTenants) {
  const TempFolder folder;
  router_config_.tenants_path = WriteTenants(folder, {{"acme", {"acme-key"}}});
  StartAll();
  EXPECT_EQ(Raw(Request("OPTIONS /v1/models")).status, 401);
  EXPECT_EQ(Raw(Request("OPTIONS *")).status, 401);
  EXPECT_EQ(Raw(Request("OPTIONS /health")).status, 200);
  EXPECT_EQ(Raw(Request("OPTIONS /v1/models", "Authorization: Bearer acme-key\r\n")).status, 200);
}

// RFC 9112, 3.2.2.
TEST_F(ConformanceTest, TheAbsoluteFormIsServed) {
  StartAll();
  const struct {
    std::string target;
    int status;
  } cases[] = {
      {"http://localhost/health", 200},
      {"http://localhost:8000/health?a=b", 200},
      {"HTTP://LOCALHOST/health", 200},
      {"https://127.0.0.1/health", 200},
      {"http://[::1]:1/health", 200},
      {"http://localhost", 200},
      {"http://localhost/nothing", 404},
      {"http://evil.com/health", 403},
      {"http://localhost:80@evil.com/", 400},
      {"ftp://localhost/health", 400},
      {"http:///health", 400},
      {"health", 400},
      {"*", 400},
  };
  for (const auto& [target, status] : cases) {
    EXPECT_EQ(Raw("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n").status, status)
        << target;
  }
  const HttpResponse answer =
      Raw(Request(std::string("POST http://localhost") + kCompletionPath, "", kTwoTokens));
  EXPECT_EQ(Text(answer), Continuation(2, 2));
  // The host of the target counts.
  EXPECT_EQ(Raw("GET http://localhost/health HTTP/1.1\r\nHost: evil.com\r\n\r\n").status, 200);
}

// RFC 9112, 3.2.
TEST_F(ConformanceTest, Http11HasOneHost) {
  StartAll();
  const struct {
    std::string head;
    int status;
  } cases[] = {
      {"GET /health HTTP/1.1\r\n", 400},
      {"HEAD /health HTTP/1.1\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: localhost:80@evil.com\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: local host\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: localhost:a\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: localhost/\r\n", 400},
      {"GET /health HTTP/1.0\r\nHost: a b\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: evil.com\r\n", 403},
      {"GET /health HTTP/1.1\r\nHost:\r\n", 200},
      {"GET /health HTTP/1.1\r\nhost:localhost \r\n", 200},
      {"GET /health HTTP/1.0\r\n", 200},
  };
  for (const auto& [head, status] : cases) {
    HttpClient client(port());
    client.Send(head + "\r\n");
    EXPECT_EQ(client.ReadHead().status, status) << head;
  }
}

// RFC 9113, 8.3.1.
TEST_F(ConformanceTest, Http2HasOneHost) {
  StartAll();
  const struct {
    Fields fields;
    std::string status;
  } cases[] = {
      {{{":authority", "localhost"}}, "200"},
      {{{"host", "localhost"}}, "200"},
      {{{":authority", "localhost"}, {"host", "LOCALHOST:80"}}, "200"},
      {{{":authority", "localhost"}, {"host", "evil.com"}}, "400"},
      {{{":authority", "localhost"}, {"host", "localhost:81"}}, "400"},
      {{{":authority", "localhost:80@evil.com"}}, "400"},
      {{{":authority", "evil.com"}}, "403"},
      {{{":authority", "localhost"}, {"host", "evil.com"}, {"content-type", "application/grpc"}},
       "400"},
  };
  for (const auto& [fields, status] : cases) {
    Http2Asker asker(port());
    EXPECT_EQ(asker.Ask(Http2("GET", "/health", fields)).status(), status)
        << fields[0].second << " " << fields.size();
  }
}

// RFC 9112, 2.2.
TEST_F(ConformanceTest, AFewEmptyLinesComeBeforeARequest) {
  StartAll();
  HttpClient client(port());
  client.Send("\r\n" + HttpClient::PostText(kCompletionPath, kTwoTokens) + "\r\n" +
              HttpClient::PostText(kCompletionPath, kTwoTokens) + "\r\n\r\n");
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(2, 2));
  EXPECT_EQ(Text(client.ReadResponse()), Continuation(2, 2));
  client.Send("\r");
  client.Send("\n");
  EXPECT_EQ(client.Get("/health").status, 200);
  for (const std::string lines : {"\n", "\r", "\n\r\n", " \r\n"}) {
    EXPECT_EQ(Raw(lines + Request("GET /health")).status, 400);
  }
  std::string many;
  for (int i = 0; i < 100; ++i) many += "\r\n";
  EXPECT_EQ(Raw(many + Request("GET /health")).status, 400);
}

// RFC 9112, 9.3, and 9110, 7.6.1.
TEST_F(ConformanceTest, ConnectionsAreKeptAsTheClientSays) {
  StartAll();
  const struct {
    std::string request;
    bool kept;
  } cases[] = {
      {"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", true},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", true},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", false},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: TE, CLOSE\r\n\r\n", false},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: te\r\nTE: trailers\r\n\r\n", true},
      {"GET /health HTTP/1.0\r\n\r\n", false},
      {"GET /health HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
      {"GET /health HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
  };
  for (const auto& [request, kept] : cases) {
    HttpClient client(port());
    client.Send(request);
    const HttpResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 200) << request;
    EXPECT_EQ(response.headers.at("connection"), kept ? "keep-alive" : "close") << request;
    if (kept) {
      EXPECT_EQ(client.Get("/health").status, 200) << request;
    } else {
      EXPECT_TRUE(client.WaitUntilClosed()) << request;
    }
  }
}

// RFC 9112, 3: a target that is too long has a status of its own.
TEST_F(ConformanceTest, WhatIsTooLongIsNamed) {
  StartAll();
  const std::string much(17 << 10, 'x');
  EXPECT_EQ(Raw("GET /" + much + " HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 414);
  EXPECT_EQ(Raw("GET /?" + much).status, 414);
  EXPECT_EQ(Raw("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + much + "\r\n\r\n").status, 431);
  EXPECT_EQ(Raw(Request("GET /health?" + std::string(8000, 'x'))).status, 200);
}

}  // namespace
}  // namespace lockstep::testing
