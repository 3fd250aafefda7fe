#include "router/http/http_stream.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/front/connection/http_metrics.h"
#include "router/http/exchanges/reply_exchange.h"
#include "router/limits/byte_budget.h"

// One request, with its bytes already taken apart.
namespace lockstep::router {
namespace {

class NoSignal final : public OutputSignal {
 public:
  void OnOutput() override {}
};

class HttpStreamTest : public ::testing::Test {
 protected:
  static constexpr size_t kMaxBodyBytes = 100'000;

  // What the gateway is shown of such a request's header.
  HttpRequest HeaderShown(const std::string& content_length, bool ends) {
    StreamRequest request{
        .fields = {{":method", "POST"}, {":path", "/v1/completions?x=1"}, {":scheme", "http"}},
        .ends = ends};
    if (!content_length.empty()) request.fields.Add("content-length", content_length);
    return Shown(request);
  }
  std::shared_ptr<StreamHandler> Open(const StreamRequest& request) {
    return OpenHttpStream(context_, request, std::make_shared<NoSignal>());
  }
  // A POST over HTTP/1.1. `announced_bytes` 0: in chunks.
  std::shared_ptr<StreamHandler> Post(size_t announced_bytes) {
    StreamRequest request{.fields = {{":method", "POST"}, {":path", "/"}}};
    if (announced_bytes > 0) {
      request.fields.Add("content-length", std::to_string(announced_bytes));
    }
    auto stream = Open(request);
    shown_.clear();
    return stream;
  }
  HttpRequest Shown(const StreamRequest& request) {
    const auto stream = Open(request);
    if (request.ends) stream->OnBodyEnd();
    stream->OnClosed();
    EXPECT_EQ(shown_.size(), 1u);
    return std::exchange(shown_, {}).at(0);
  }

  prometheus::Registry registry_;
  HttpMetrics metrics_{registry_, "model", {}};
  ByteBudget memory_{150'000};
  std::vector<HttpRequest> shown_;
  HttpStreamContext context_{.handle =
                                 [this](HttpRequest request, std::shared_ptr<OutputSignal>) {
                                   shown_.push_back(std::move(request));
                                   return nullptr;
                                 },
                             .metrics = metrics_,
                             .memory = memory_,
                             .max_body_bytes = kMaxBodyBytes};
};

TEST_F(HttpStreamTest, WhatIsAnnouncedIsNotHeldBeforeItComes) {
  const auto stream = Post(kMaxBodyBytes);
  EXPECT_EQ(memory_.held_bytes(), 0u);
  stream->OnBody("x");
  EXPECT_LE(memory_.held_bytes(), 4096u);
  stream->OnBody(std::string(20'000, 'x'));
  EXPECT_GE(memory_.held_bytes(), 20'001u);
  EXPECT_LE(memory_.held_bytes(), 2 * 20'001u);
  stream->OnBody(std::string(kMaxBodyBytes - 20'001, 'x'));
  EXPECT_EQ(memory_.held_bytes(), kMaxBodyBytes);
  stream->OnBodyEnd();
  EXPECT_EQ(shown_.at(0).body, std::string(kMaxBodyBytes, 'x'));
  EXPECT_EQ(memory_.held_bytes(), kMaxBodyBytes) << "until its answer was sent";
  stream->OnClosed();
  EXPECT_EQ(memory_.held_bytes(), 0u);
}

TEST_F(HttpStreamTest, AChunkedBodyIsHeldAsItComesToo) {
  const auto stream = Post(0);
  stream->OnBody("abc");
  EXPECT_LE(memory_.held_bytes(), 4096u);
  stream->OnBody(std::string(kMaxBodyBytes, 'x'));
  EXPECT_EQ(StatusOf(*stream->Take().head), 413);
  EXPECT_EQ(memory_.held_bytes(), 0u);
  stream->OnClosed();
}

TEST_F(HttpStreamTest, BodiesTogetherAreBounded) {
  const auto first = Post(kMaxBodyBytes);
  first->OnBody(std::string(kMaxBodyBytes, 'x'));
  const auto second = Post(kMaxBodyBytes);
  second->OnBody(std::string(70'000, 'x'));
  EXPECT_EQ(StatusOf(*second->Take().head), 503);
  EXPECT_EQ(memory_.held_bytes(), kMaxBodyBytes);
  const auto third = Post(40'000);
  third->OnBody(std::string(40'000, 'x'));
  EXPECT_TRUE(third->Take().empty());
  for (const auto& stream : {first, second, third}) stream->OnClosed();
}

TEST_F(HttpStreamTest, ARequestThatCannotBeReadGetsTheConnectionsError) {
  for (const char* const method : {"GET", "HEAD"}) {
    const auto stream = Open({.fields = {{":method", method}},
                              .refusal = StreamRequest::Refusal{431, "the header is too large"}});
    const Exchange::Output output = stream->Take();
    EXPECT_EQ(StatusOf(*output.head), 431);
    EXPECT_NE(output.head->Find("content-length"), "0");
    EXPECT_EQ(output.body.empty(), std::string(method) == "HEAD");
    EXPECT_TRUE(output.last);
    EXPECT_EQ(metrics_.requests_in_flight->Value(), 1);
    stream->OnClosed();
  }
  EXPECT_EQ(metrics_.requests_in_flight->Value(), 0);
  EXPECT_TRUE(shown_.empty());
}

TEST_F(HttpStreamTest, ARefusalMayHaveAnotherForm) {
  std::vector<std::string> refused;
  HttpStreamContext context{
      .handle = [](HttpRequest, std::shared_ptr<OutputSignal>) { return nullptr; },
      .refuse =
          [&refused](const HttpRequest& request, int http_status, std::string message,
                     std::shared_ptr<OutputSignal> signal) {
            refused.push_back(request.path + " " + std::to_string(http_status));
            return Refusal(418, std::move(message), std::move(signal));
          },
      .metrics = metrics_,
      .memory = memory_,
      .max_body_bytes = 3};
  const auto stream = OpenHttpStream(context, {.fields = {{":method", "POST"}, {":path", "/own"}}},
                                     std::make_shared<NoSignal>());
  stream->OnBody("four");
  EXPECT_EQ(StatusOf(*stream->Take().head), 418);
  EXPECT_EQ(refused, std::vector<std::string>{"/own 413"});
  stream->OnClosed();
}

TEST_F(HttpStreamTest, AwaitsContinueIfItsHeaderSaysSo) {
  StreamRequest request{
      .fields = {{":method", "POST"}, {":path", "/"}, {"expect", "100-Continue"}}};
  EXPECT_TRUE(Open(request)->AwaitsContinue());
  request.fields = {{":method", "POST"}, {":path", "/"}};
  EXPECT_FALSE(Open(request)->AwaitsContinue());
}

TEST_F(HttpStreamTest, WhatABodyAnnouncesIsKnownBeforeItComes) {
  const HttpRequest sized = HeaderShown("70000", /*ends=*/false);
  EXPECT_TRUE(sized.body_follows);
  EXPECT_EQ(sized.announced_body_bytes, 70'000u);
  EXPECT_EQ(sized.path, "/v1/completions");
  EXPECT_EQ(HeaderShown("", /*ends=*/false).announced_body_bytes, UINT64_MAX);
  const HttpRequest without = HeaderShown("", /*ends=*/true);
  EXPECT_FALSE(without.body_follows);
  EXPECT_EQ(without.announced_body_bytes, 0u);
}

TEST_F(HttpStreamTest, KeysAndIdsAreReadFromTheirHeaders) {
  StreamRequest request{.fields = {{":method", "POST"},
                                   {":path", "/"},
                                   {"authorization", "Bearer a"},
                                   {"x-api-key", "b"},
                                   {"x-request-id", "r-1"},
                                   {"x-claude-code-session-id", "s-1"}},
                        .ends = true};
  const HttpRequest shown = Shown(request);
  EXPECT_EQ(shown.authorization, "Bearer a");
  EXPECT_EQ(shown.api_key, "b");
  EXPECT_EQ(shown.request_id, "r-1");
  EXPECT_EQ(shown.session_id, "s-1");
  // Of several keys none counts: joined, they are nobody's.
  request.fields.Add("authorization", "Bearer a");
  request.fields.Add("x-api-key", "b");
  EXPECT_EQ(Shown(request).authorization, "Bearer a,Bearer a");
  EXPECT_EQ(Shown(request).api_key, "b,b");
  // An id that may not be shown as it is, is none.
  for (const std::string& id : {std::string("a b"), std::string(257, 'x'), std::string()}) {
    request.fields = {{":method", "POST"}, {":path", "/"}, {"x-claude-code-session-id", id}};
    EXPECT_EQ(Shown(request).session_id, "");
  }
}

TEST_F(HttpStreamTest, ATraceIsReadFromItsHeaders) {
  constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  StreamRequest request{.fields = {{":method", "POST"},
                                   {":path", "/"},
                                   {"tracestate", "a=1"},
                                   {"traceparent", kParent},
                                   {"tracestate", "b=2"}},
                        .ends = true};
  const HttpRequest shown = Shown(request);
  ASSERT_TRUE(shown.trace.has_value());
  EXPECT_EQ(HexOf(shown.trace->trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(shown.trace->trace_state, "a=1,b=2");
  // Of two parents nobody could say which one counts.
  request.fields.Add("traceparent", kParent);
  EXPECT_FALSE(Shown(request).trace.has_value());
}

TEST_F(HttpStreamTest, WhatBrowsersSayOfARequestIsKnown) {
  StreamRequest request{.fields = {{":method", "POST"},
                                   {":path", "/"},
                                   {":authority", "localhost:8000"},
                                   {"host", "LOCALHOST:8000"},
                                   {"origin", "https://page.example"},
                                   {"content-type", "text/plain"}},
                        .loopback_only = true,
                        .ends = true};
  const HttpRequest shown = Shown(request);
  EXPECT_EQ(shown.host, "localhost:8000");
  EXPECT_EQ(shown.origin, "https://page.example");
  EXPECT_EQ(shown.content_type, "text/plain");
  EXPECT_TRUE(shown.loopback_only);
  request.fields = {{":method", "GET"}, {":path", "/"}, {"host", "other"}};
  EXPECT_EQ(Shown(request).host, "other");
}

}  // namespace
}  // namespace lockstep::router
