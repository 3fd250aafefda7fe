#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "tests/router/http/http_fixture.h"
#include "tests/router/serving/byte_tokenizer.h"

// Prompts whose clients go, or whose router ends, while they are encoded.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;

constexpr char kEndless[] = "endless";

// Encodes the text "endless" until it is told to give up.
class EndlessTokenizer final : public router::Tokenizer {
 public:
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override {
    if (text.find(kEndless) == std::string_view::npos) return bytes_.Encode(text, options);
    num_encoding.fetch_add(1);
    // A test that fails ends as well.
    const Instant give_up = MonotonicNow() + absl::Minutes(1);
    while (!IsCancelled(options.cancellation) && MonotonicNow() < give_up) {
      std::this_thread::yield();
    }
    num_encoding.fetch_sub(1);
    if (!IsCancelled(options.cancellation)) return absl::InternalError("nobody ended it");
    return absl::CancelledError("");
  }
  std::string_view TokenBytes(TokenId id) const override { return bytes_.TokenBytes(id); }
  bool IsSpecial(TokenId id) const override { return bytes_.IsSpecial(id); }
  std::vector<std::string> SpecialSpellings() const override { return bytes_.SpecialSpellings(); }
  std::string VocabularyString(TokenId id) const override { return bytes_.VocabularyString(id); }
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const override {
    return bytes_.Decode(ids, skip_special_tokens);
  }
  std::span<const TokenId> prefix_ids() const override { return bytes_.prefix_ids(); }
  std::span<const TokenId> suffix_ids() const override { return bytes_.suffix_ids(); }
  uint32_t vocab_size() const override { return bytes_.vocab_size(); }
  std::optional<TokenId> bos_token_id() const override { return bytes_.bos_token_id(); }
  std::optional<TokenId> eos_token_id() const override { return bytes_.eos_token_id(); }
  std::optional<TokenId> FindToken(std::string_view content) const override {
    return bytes_.FindToken(content);
  }
  const router::TemplateSource& templates() const override { return bytes_.templates(); }
  const std::vector<std::string>& warnings() const override { return bytes_.warnings(); }

  mutable std::atomic<int> num_encoding = 0;

 private:
  const ByteTokenizer bytes_;
};

class GivenUpPromptsTest : public HttpServingTest {
 protected:
  GivenUpPromptsTest() {
    auto tokenizer = std::make_unique<EndlessTokenizer>();
    tokenizer_ = tokenizer.get();
    model_.tokenizer = std::move(tokenizer);
    router_config_.num_encode_threads = 1;
  }
  void AwaitEncoding(int count) {
    Eventually("prompts are encoded", [&] { return tokenizer_->num_encoding.load() == count; });
  }
  // The only thread is free again.
  void ExpectServing() { EXPECT_TRUE(Generate(TextRequest("Hello", 1)).status.ok()); }

  const EndlessTokenizer* tokenizer_;
};

TEST_F(GivenUpPromptsTest, WhenAGrpcClientGoes) {
  StartBoth();
  grpc::ClientContext generate;
  const auto reader = stub_->Generate(&generate, TextRequest(kEndless, 1));
  AwaitEncoding(1);
  generate.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectServing();

  grpc::ClientContext tokenize;
  std::thread client([&] {
    v1::TokenizeRequest request;
    request.set_text(kEndless);
    v1::TokenizeResponse response;
    EXPECT_EQ(stub_->Tokenize(&tokenize, request, &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  AwaitEncoding(1);
  tokenize.TryCancel();
  client.join();
  ExpectServing();
  ExpectEverythingBack();
}

TEST_F(GivenUpPromptsTest, WhenAnHttpClientGoes) {
  StartAll();
  for (const std::string path : {"/v1/completions", "/v1/chat/completions", "/tokenize"}) {
    const std::string body = path == "/v1/chat/completions"
                                 ? R"({"messages": [{"role": "user", "content": "endless"}]})"
                                 : R"({"prompt": "endless"})";
    {
      HttpClient client(port());
      client.Send(HttpClient::PostText(path, body));
      AwaitEncoding(1);
    }
    ExpectServing();
  }
  ExpectEverythingBack();
}

TEST_F(GivenUpPromptsTest, WhenTheRoutersDrainIsOver) {
  StartBoth();
  std::thread waiting([this] {
    const Reply reply = Generate(TextRequest(kEndless, 1));
    ExpectStatus(reply.status, grpc::StatusCode::UNAVAILABLE, "the router is shutting down");
  });
  AwaitEncoding(1);
  EXPECT_FALSE(router_->Drain(absl::Milliseconds(10)));
  waiting.join();
  router_.reset();
  EXPECT_EQ(tokenizer_->num_encoding.load(), 0);
}

TEST_F(GivenUpPromptsTest, WhenTheRouterEndsWithoutADrain) {
  StartBoth();
  std::thread waiting([this] { EXPECT_FALSE(Generate(TextRequest(kEndless, 1)).status.ok()); });
  AwaitEncoding(1);
  router_.reset();
  EXPECT_EQ(tokenizer_->num_encoding.load(), 0);
  waiting.join();
}

}  // namespace
}  // namespace lockstep::testing
