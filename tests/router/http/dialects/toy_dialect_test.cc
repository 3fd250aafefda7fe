#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "router/http/gateway.h"
#include "router/http/json/json_fields.h"
#include "router/strands/strand_pool.h"
#include "tests/router/front/counting_signal.h"
#include "tests/router/http/http_fixture.h"

// The example of docs/adding/http-api.md: an API of one class and one line of a route table. Its
// bodies are {"say": TEXT, "words": N}. Its answers are plain lines.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::HasSubstr;

class LineWriter final : public router::AnswerWriter {
 public:
  void Add(uint32_t, std::span<const v1::GenerateResponse> messages, std::string& out) override {
    for (const v1::GenerateResponse& message : messages) {
      if (message.has_delta()) out += message.delta().text();
    }
  }
  void Finish(std::string& out) override { out += "\n"; }
  void Fail(const absl::Status& status, std::string& out) override {
    out += "\nerror: " + Message(status) + "\n";
  }
  size_t num_held_bytes() const override { return 0; }
};

class LineDialect final : public router::Dialect {
 public:
  std::string_view operation() const override { return "text_completion"; }

  absl::StatusOr<std::unique_ptr<router::ApiRequest>> ReadBody(
      std::string_view body, const router::BodyReading& reading) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json parsed, router::ParseBody(body, reading.meter));
    router::UnknownFields unknown(reading.strict_fields);
    router::JsonFields fields(parsed, unknown, "", body);
    auto out = std::make_unique<router::ApiRequest>();
    out->stream = true;
    v1::GenerateRequest& request = out->prompts.emplace_back();
    request.set_text(fields.String("say").value_or(""));
    request.mutable_stop()->set_max_tokens(fields.Uint32("words", 1, 100).value_or(1));
    LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
    out->ignored_fields = unknown.list();
    return out;
  }

  std::unique_ptr<router::AnswerWriter> MakeWriter(router::AnswerFacts,
                                                   const router::ApiRequest&) const override {
    return std::make_unique<LineWriter>();
  }

  router::HttpHead WriteError(const absl::Status& status, const router::ErrorFacts&,
                              std::string& body) const override {
    body += "error: " + Message(status) + "\n";
    return {.status = 418, .content_type = "text/plain"};
  }

  absl::Status OfListedPrompt(const absl::Status& status, size_t) const override { return status; }
};

class ToyDialectTest : public HttpServingTest {
 protected:
  struct Answer {
    router::HeaderList head;
    std::string body;
  };

  void Start() {
    StartBoth();
    home_ = std::make_unique<router::StrandPool>("home", 1);
    gateway_ = std::make_unique<router::Gateway>(
        router_->api(), registry_,
        router::RouteTable({router::GenerationRoute("/lines", dialect_)}));
  }
  ~ToyDialectTest() override {
    router_.reset();
    home_.reset();
  }

  Answer Ask(const std::string& method, const std::string& path, std::string body) {
    const auto signal = std::make_shared<CountingSignal>();
    router::HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    // Owns nothing: the last owner of a call may be a thread of the pool.
    request.connection_runner =
        std::shared_ptr<router::StrandRunner>(std::shared_ptr<void>(), home_.get());
    const auto exchange = gateway_->Handle(std::move(request), signal);
    Answer answer;
    bool last = false;
    while (!last) {
      router::Exchange::Output output;
      Eventually("more comes", [&] { return !(output = exchange->Take()).empty(); });
      if (output.head.has_value()) answer.head = *output.head;
      answer.body += output.body;
      last = output.last;
      exchange->OnWritten();
    }
    exchange->OnClosed();
    return answer;
  }

  const LineDialect dialect_;
  std::unique_ptr<router::StrandPool> home_;
  std::unique_ptr<router::Gateway> gateway_;
};

TEST_F(ToyDialectTest, AnswersInItsOwnForm) {
  Start();
  const Answer answer = Ask("POST", "/lines", R"({"say": "Hello", "words": 4, "tone": "kind"})");
  EXPECT_EQ(router::StatusOf(answer.head), 200);
  EXPECT_EQ(answer.body, Continuation(6, 4) + "\n");
  EXPECT_EQ(answer.head.Find("x-lockstep-ignored-fields"), "tone");
  ExpectEverythingBack();
}

TEST_F(ToyDialectTest, ItsErrorsAreItsOwn) {
  Start();
  const Answer wrong = Ask("POST", "/lines", R"({"say": "Hello", "words": 0})");
  EXPECT_EQ(router::StatusOf(wrong.head), 418);
  EXPECT_THAT(wrong.body, HasSubstr("error: words: expected"));
  ExpectEverythingBack();
}

TEST_F(ToyDialectTest, TheGatewayKnowsItsPathAndNoOther) {
  Start();
  EXPECT_EQ(router::StatusOf(Ask("GET", "/lines", "").head), 405);
  EXPECT_EQ(router::StatusOf(Ask("OPTIONS", "/lines", "").head), 200);
  EXPECT_EQ(router::StatusOf(Ask("POST", "/v1/completions", "{}").head), 404);
}

}  // namespace
}  // namespace lockstep::testing
