#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "router/tracing/otlp_message.h"
#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/test_tenants.h"

// What a whole router records of requests, over HTTP and gRPC.
namespace lockstep::testing {
namespace {

using router::Span;
using router::testing::EventsOf;
using router::testing::NumberAttribute;
using router::testing::TextAttribute;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kCompletions[] = "/v1/completions";
constexpr char kClientTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";

class GatewayTraceTest : public HttpServingTest {
 protected:
  GatewayTraceTest() { tracer_ = &recorder_.tracer(); }

  static std::string RequestText(const std::string& body, const std::string& fields = "") {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "{}Content-Length: {}\r\n\r\n{}",
        kCompletions, fields, body.size(), body);
  }
  HttpResponse Ask(const std::string& body, const std::string& fields) {
    HttpClient client(port());
    client.Send(RequestText(body, fields));
    return client.ReadResponse();
  }
  static std::string Traceparent(const std::string& flags) {
    return fmt::format("traceparent: 00-{}-00f067aa0ba902b7-{}\r\n", kClientTrace, flags);
  }
  // Everything that a collector would see.
  static std::string Everything(const Span& span) {
    return router::MakeOtlpMessage({&span, 1}, "router").DebugString();
  }
};

TEST_F(GatewayTraceTest, ACompletionContinuesTheTraceOfItsClient) {
  StartAll();
  const HttpResponse response = Ask(R"({"prompt": "some words", "max_tokens": 4})",
                                    Traceparent("01") + "tracestate: a=1\r\n");
  EXPECT_EQ(response.status, 200) << response.body;
  const Span span = recorder_.Next();
  EXPECT_EQ(router::HexOf(span.trace_id), kClientTrace);
  EXPECT_EQ(span.trace_state, "a=1");
  EXPECT_EQ(span.name, "text_completion " + model_.id);
  EXPECT_THAT(EventsOf(span), ElementsAre("queued", "started " + worker_address(), "first_token"));
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.input_tokens"), 11);
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.output_tokens"), 4);
  EXPECT_EQ(TextAttribute(span, "http.route"), kCompletions);
  EXPECT_THAT(Everything(span), Not(HasSubstr("some words")));
}

TEST_F(GatewayTraceTest, TokensAreCountedAsInTheUsage) {
  StartAll();
  const std::string text = Continuation(2, 6);
  const HttpResponse response =
      Post(kCompletions,
           fmt::format(R"({{"prompt": "x", "max_tokens": 20, "stop": "{}"}})", text.substr(3, 2)));
  EXPECT_EQ(response.status, 200) << response.body;
  const Span span = recorder_.Next();
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.output_tokens"),
            Json(response)["usage"]["completion_tokens"].get<int64_t>());
}

TEST_F(GatewayTraceTest, WhatTheClientDoesNotRecordIsNotRecorded) {
  StartAll();
  EXPECT_EQ(Ask(R"({"prompt": "x", "max_tokens": 1})", Traceparent("00")).status, 200);
  EXPECT_THAT(recorder_.Rest(), IsEmpty());
}

TEST_F(GatewayTraceTest, ABadHeaderIsNoHeader) {
  StartAll();
  EXPECT_EQ(Ask(R"({"prompt": "x", "max_tokens": 1})", "traceparent: \x01\r\n").status, 400)
      << "no header of HTTP";
  EXPECT_EQ(Ask(R"({"prompt": "x", "max_tokens": 1})", "traceparent: 00-zz\r\n").status, 200);
  EXPECT_EQ(recorder_.Next().parent_span_id, router::SpanId{});
}

TEST_F(GatewayTraceTest, WhatIsRefusedHasItsReason) {
  StartAll();
  for (const char* body : {"{", R"({"prompt": "x", "top_p": 7})"}) {
    EXPECT_EQ(Post(kCompletions, body).status, 400);
    const Span span = recorder_.Next();
    EXPECT_EQ(TextAttribute(span, "error.type"), "INVALID_ARGUMENT") << body;
    EXPECT_FALSE(span.failed);
  }
}

TEST_F(GatewayTraceTest, ABatchIsOneSpan) {
  StartAll();
  EXPECT_EQ(Post(kCompletions, R"({"prompt": ["a", "bcd"], "max_tokens": 2})").status, 200);
  const Span span = recorder_.Next();
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.input_tokens"), 6);
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.output_tokens"), 4);
  EXPECT_THAT(recorder_.Rest(), IsEmpty());
}

TEST_F(GatewayTraceTest, AClientThatLeavesIsSeen) {
  StartAll();
  HoldForwards();
  {
    HttpClient client(port());
    client.Send(RequestText(R"({"prompt": "x", "max_tokens": 50})"));
    Eventually("it runs", [&] { return metrics_.running_requests->Value() == 1; });
  }
  EXPECT_EQ(TextAttribute(recorder_.Next(), "error.type"), "CANCELLED");
  ReleaseForwards();
}

TEST_F(GatewayTraceTest, ACallOverGrpcContinuesTheTraceOfItsClient) {
  StartAll();
  grpc::ClientContext context;
  context.AddMetadata("traceparent", fmt::format("00-{}-00f067aa0ba902b7-01", kClientTrace));
  EXPECT_TRUE(Generate(context, TextRequest("Hello", 3)).status.ok());
  const Span span = recorder_.Next();
  EXPECT_EQ(router::HexOf(span.trace_id), kClientTrace);
  EXPECT_EQ(span.name, "text_completion " + model_.id);
  EXPECT_EQ(TextAttribute(span, "rpc.method"), "lockstep.v1.Generation/Generate");
}

TEST_F(GatewayTraceTest, ACallOverGrpcThatFailsHasItsReason) {
  StartAll();
  lockstep::v1::GenerateRequest request = TextRequest("Hello", 3);
  request.set_model("another");
  EXPECT_EQ(Generate(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(TextAttribute(recorder_.Next(), "error.type"), "NOT_FOUND");
  // Too large to be read at all.
  request = TextRequest(std::string(8 << 20, 'x'), 3);
  EXPECT_EQ(Generate(request).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(TextAttribute(recorder_.Next(), "error.type"), "RESOURCE_EXHAUSTED");
}

TEST_F(GatewayTraceTest, AWorkerThatIsLostIsSeen) {
  StartAll();
  HoldForwards();
  Reply reply;
  std::thread client([&] { reply = Generate(TextRequest("Hello", 60)); });
  AllowForwards(10);
  Eventually("some tokens are out", [&] { return metrics_.generation_tokens_total->Value() >= 5; });
  StopWorker();
  StartWorker();
  ReleaseForwards();
  client.join();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(EventsOf(recorder_.Next()),
              ElementsAre("queued", "started " + worker_address(), "first_token",
                          "worker_lost " + worker_address()));
}

TEST_F(GatewayTraceTest, StrangersAreNotRecordedAndTenantsAreNotNamed) {
  const TempFolder folder;
  router_config_.tenants_path = WriteTenants(folder, {{"acme", {"the-key"}}});
  StartAll();
  const std::string body = R"({"prompt": "x", "max_tokens": 1})";
  EXPECT_EQ(Ask(body, Traceparent("01")).status, 401);
  EXPECT_FALSE(GenerateAs("another-key", TextRequest("Hello", 1)).status.ok());
  EXPECT_EQ(Ask(body, Traceparent("01") + "Authorization: Bearer the-key\r\n").status, 200);
  EXPECT_TRUE(GenerateAs("the-key", TextRequest("Hello", 1)).status.ok());
  const std::vector<Span> spans = {recorder_.Next(), recorder_.Next()};
  EXPECT_THAT(recorder_.Rest(), IsEmpty());
  for (const Span& span : spans) {
    EXPECT_THAT(Everything(span), Not(HasSubstr("acme")));
    EXPECT_THAT(Everything(span), Not(HasSubstr("the-key")));
  }
}

}  // namespace
}  // namespace lockstep::testing
