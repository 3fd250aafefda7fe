#include "router/http/http_stream.h"

#include <absl/time/time.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/front/connection/http_metrics.h"
#include "router/http/exchanges/reply_exchange.h"
#include "router/limits/byte_budget.h"

// One request over HTTP/2, with the frames already taken apart.
namespace lockstep::router {
namespace {

class NoSignal final : public OutputSignal {
 public:
  void OnOutput() override {}
};

class HttpStreamTest : public ::testing::Test {
 protected:
  // What the gateway is shown of such a request's header.
  HttpRequest HeaderShown(const std::string& content_length, bool ends) {
    StreamRequest request{
        .fields = {{":method", "POST"}, {":path", "/v1/completions?x=1"}, {":scheme", "http"}},
        .ends = ends};
    if (!content_length.empty()) request.fields.Add("content-length", content_length);
    return Shown(request);
  }
  HttpRequest Shown(const StreamRequest& request) {
    const auto stream = OpenHttpStream(context_, request, std::make_shared<NoSignal>());
    if (request.ends) stream->OnBodyEnd();
    stream->OnClosed();
    EXPECT_EQ(shown_.size(), 1u);
    return std::exchange(shown_, {}).at(0);
  }

  prometheus::Registry registry_;
  HttpMetrics metrics_{registry_, "model", {}};
  ByteBudget memory_{1 << 20};
  std::vector<HttpRequest> shown_;
  ConnectionContext context_{.handle =
                                 [this](HttpRequest request, std::shared_ptr<OutputSignal>) {
                                   shown_.push_back(std::move(request));
                                   return nullptr;
                                 },
                             .refuse = Refusal,
                             .draining = [] { return false; },
                             .limits = {.max_body_bytes = 1 << 10,
                                        .header_timeout = absl::Minutes(1),
                                        .body_timeout = absl::Minutes(1),
                                        .idle_timeout = absl::Minutes(1),
                                        .write_timeout = absl::Minutes(1)},
                             .metrics = metrics_,
                             .memory = memory_};
};

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
