#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/http/gateway.h"
#include "router/strands/strand_pool.h"
#include "tests/router/front/counting_signal.h"
#include "tests/router/http/http_fixture.h"
#include "tests/router/strands/function_strand.h"

// What exchanges hold for clients that leave their answers unread.
namespace lockstep::testing {
namespace {

using router::ByteBudget;
using router::Exchange;
using ::testing::HasSubstr;

constexpr size_t kAmple = size_t{256} << 20;

// Exchanges without connections: the test is the client.
class AnswerMemoryTest : public HttpServingTest {
 protected:
  struct Pending {
    std::shared_ptr<Exchange> exchange;
    std::shared_ptr<CountingSignal> signal;
  };

  void StartAll(size_t memory_bytes) {
    StartBoth();
    memory_ = std::make_shared<ByteBudget>(memory_bytes);
    home_ = std::make_unique<router::StrandPool>("home", 1);
    gateway_ =
        std::make_unique<router::Gateway>(router_->api(), registry_, router::RouteTable::All());
  }
  ~AnswerMemoryTest() override {
    ReleaseForwards();
    router_.reset();
    home_.reset();
  }
  // Returns at once; nothing of the answer is taken.
  Pending Ask(const std::string& path, std::string body, size_t max_answer_bytes = kAmple) {
    const auto signal = std::make_shared<CountingSignal>();
    router::HttpRequest request;
    request.method = body.empty() ? "GET" : "POST";
    request.path = path;
    request.body = std::move(body);
    request.answer.memory = memory_;
    request.answer.max_bytes = max_answer_bytes;
    // Owns nothing. The last owner of a call may be a thread of the pool, which cannot join itself.
    request.connection_runner =
        std::shared_ptr<router::StrandRunner>(std::shared_ptr<void>(), home_.get());
    Pending pending = {.exchange = gateway_->Handle(std::move(request), signal), .signal = signal};
    return pending;
  }
  Pending AskAndAwait(const std::string& path, std::string body) {
    Pending pending = Ask(path, std::move(body));
    pending.signal->Await(1);
    return pending;
  }

  // The thread that made an answer may let go of its exchange a little later than the test.
  void ExpectHeld(size_t num_bytes) {
    Eventually("the rest is given back", [&] { return memory_->held_bytes() == num_bytes; });
  }

  std::shared_ptr<ByteBudget> memory_;
  std::unique_ptr<router::StrandPool> home_;
  std::unique_ptr<router::Gateway> gateway_;
};

constexpr size_t kBodyBytes = size_t{1} << 20;

TEST_F(AnswerMemoryTest, AnErrorQuotesLittleOfALargeBodyAndIsCounted) {
  router_config_.api.strict_fields = true;
  StartAll(kAmple);
  const std::string controls(kBodyBytes, '\x7f');
  const std::string letters(kBodyBytes, 'x');
  size_t num_held = 0;
  std::vector<Pending> unread;
  for (const std::string& body :
       {"{\"prompt\": \"" + controls, "{\"prompt\": \"" + controls + "\xff\"}",
        "{\"" + controls + "\": 1}", "{\"prompt\": {\"" + letters + "\": 1}}",
        "{\"prompt\": \"a\", \"stop\": 1, \"n\": \"" + letters + "\"}",
        "{\"prompt\": \"a\", \"model\": \"" + letters + "\"}", "[\"" + letters + "\"]", letters,
        "{\"prompt\": \"a\", \"request_id\": \"" + letters + "\"}",
        "{\"prompt\": \"a\", \"logit_bias\": {\"" + controls + "\": 1}}"}) {
    for (const std::string path : {"/v1/completions", "/v1/chat/completions", "/tokenize"}) {
      ExpectHeld(num_held);
      Pending pending = AskAndAwait(path, body);
      const size_t num_bytes = memory_->held_bytes() - num_held;
      if (num_bytes > 4096) continue;  // tokenized: some of these are prompts as well
      EXPECT_GT(num_bytes, 0u);
      const Exchange::Output output = pending.exchange->Take();
      ASSERT_TRUE(output.head.has_value());
      EXPECT_NE(router::StatusOf(*output.head), 200) << output.body;
      EXPECT_LE(output.body.size(), num_bytes);
      num_held += num_bytes;
      unread.push_back(std::move(pending));
    }
  }
  EXPECT_GE(unread.size(), 29u);
  unread.clear();
  ExpectHeld(0);
}

TEST_F(AnswerMemoryTest, AnUnreadAnswerOfTokenizeIsCountedAndKeepsNoPlace) {
  router_config_.api.max_open_text_calls = 1;
  StartAll(kAmple);
  const std::string body = fmt::format(R"({{"prompt": "{}"}})", std::string(100'000, 'x'));
  std::vector<Pending> unread;
  for (int i = 1; i <= 3; ++i) {
    unread.push_back(AskAndAwait("/tokenize", body));
    EXPECT_GT(memory_->held_bytes(), i * size_t{100'000} * 4);
    EXPECT_EQ(router_->api().text_places.num_taken(), 0u);
  }
  const size_t num_held = memory_->held_bytes();
  const Exchange::Output output = unread.back().exchange->Take();
  EXPECT_EQ(router::StatusOf(*output.head), 200);
  EXPECT_EQ(output.body.size() * 3, num_held);
  EXPECT_EQ(memory_->held_bytes(), num_held) << "taken is not yet sent";
  unread.pop_back();
  ExpectHeld(num_held / 3 * 2);
  unread.clear();
  ExpectHeld(0);
}

TEST_F(AnswerMemoryTest, AnAnswerThatHasNoRoomIsRefused) {
  StartAll(450'000);
  const std::string body = fmt::format(R"({{"prompt": "{}"}})", std::string(60'000, 'x'));
  const Pending first = AskAndAwait("/tokenize", body);
  const Pending second = AskAndAwait("/tokenize", body);
  EXPECT_EQ(router::StatusOf(*first.exchange->Take().head), 200);
  const Exchange::Output refused = second.exchange->Take();
  EXPECT_EQ(router::StatusOf(*refused.head), 429);
  EXPECT_THAT(refused.body, HasSubstr("too many bytes of other answers are in transit"));
  EXPECT_LE(memory_->held_bytes(), 450'000u + refused.body.size());
}

TEST_F(AnswerMemoryTest, AnAnswerWhoseEndHasNoRoomHasASpanThatFailed) {
  tracer_ = &recorder_.tracer();
  StartAll(kAmple);
  // All of the answer comes at once, when the call has ended well.
  const Pending refused =
      Ask("/v1/completions", R"({"prompt": "x", "max_tokens": 1})", /*max_answer_bytes=*/1);
  refused.signal->Await(1);
  EXPECT_EQ(router::StatusOf(*refused.exchange->Take().head), 400);
  EXPECT_EQ(router::testing::TextAttribute(recorder_.Next(), "error.type"), "INVALID_ARGUMENT");
}

TEST_F(AnswerMemoryTest, MetricsAreCountedToo) {
  StartAll(kAmple);
  const Pending pending = AskAndAwait("/metrics", "");
  EXPECT_GT(memory_->held_bytes(), 1000u);
  EXPECT_EQ(pending.exchange->Take().body.size(), memory_->held_bytes());
}

TEST_F(AnswerMemoryTest, WhatABodyIsReadIntoIsCounted) {
  StartAll(size_t{8} << 20);
  std::string values = R"({"prompt": [[)";
  for (size_t i = 0; i < kBodyBytes / 3; ++i) values += "{},";
  const Pending refused = AskAndAwait("/v1/completions", values + "{}]]}");
  const Exchange::Output output = refused.exchange->Take();
  EXPECT_EQ(router::StatusOf(*output.head), 429) << output.body;
  EXPECT_THAT(output.body, HasSubstr("takes too much memory"));
  ExpectHeld(output.body.size());  // what was read is given back when the answer is made
}

TEST_F(AnswerMemoryTest, WhatSeveralPromptsShareIsCountedForEach) {
  StartAll(size_t{4} << 20);
  std::string body =
      R"({"max_tokens": 1, "cache_salt": ")" + std::string(200'000, 's') + R"(", "prompt": ["a")";
  for (int i = 0; i < 100; ++i) body += R"(,"b")";
  const Pending refused = AskAndAwait("/v1/completions", body + "]}");
  const Exchange::Output output = refused.exchange->Take();
  EXPECT_EQ(router::StatusOf(*output.head), 429) << output.body;
  EXPECT_THAT(output.body, HasSubstr("too many bytes of other requests are in transit"));
}

TEST_F(AnswerMemoryTest, WhatWaitsOfAStreamIsCountedUntilItIsWritten) {
  StartAll(kAmple);
  Pending stream =
      AskAndAwait("/v1/completions",
                  R"({"prompt": "x", "max_tokens": 2000, "stream": true, "ignore_eos": true})");
  Eventually("the client's share waits", [&] { return memory_->held_bytes() >= (16u << 10); });
  const Exchange::Output first = stream.exchange->Take();
  EXPECT_GE(memory_->held_bytes(), first.body.size()) << "it is being written";
  bool last = first.last;
  size_t most_held = 0;
  while (!last) {
    stream.exchange->OnWritten();
    Exchange::Output output;
    Eventually("more comes", [&] { return !(output = stream.exchange->Take()).empty(); });
    last = output.last;
    most_held = std::max(most_held, memory_->held_bytes());
  }
  EXPECT_LE(most_held, size_t{1} << 20);
  stream.exchange->OnClosed();
  stream.exchange.reset();
  ExpectHeld(0);
  ExpectEverythingBack();
}

// Whose client is gone before a thread has looked at it.
TEST_F(AnswerMemoryTest, AnAbandonedBodyIsDroppedBeforeItsTurn) {
  router_config_.num_encode_threads = 1;
  StartAll(kAmple);
  std::latch begun(1), may_go(1);
  const auto blocker = std::make_shared<router::testing::FunctionStrand>([&] {
    begun.count_down();
    may_go.wait();
  });
  router_->api().encode_pool.Schedule(blocker);
  begun.wait();
  std::vector<Pending> waiting;
  for (const std::string path : {"/v1/completions", "/tokenize"}) {
    waiting.push_back(Ask(path, std::string(kBodyBytes, '[')));
  }
  EXPECT_EQ(router_->api().text_places.num_taken(), 1u);
  for (Pending& pending : waiting) pending.exchange->OnClosed();
  EXPECT_EQ(router_->api().text_places.num_taken(), 0u);
  may_go.count_down();
  for (Pending& pending : waiting) {
    std::weak_ptr<Exchange> exchange = std::exchange(pending.exchange, nullptr);
    Eventually("the pool lets go of it", [&] { return exchange.expired(); });
  }
  EXPECT_EQ(memory_->held_bytes(), 0u);
}

TEST_F(AnswerMemoryTest, AChatToTokenizeIsChargedForItsMessages) {
  StartAll(kAmple);
  std::string body = R"({"messages": [{"role": "user", "content": "x"})";
  for (int i = 1; i < 100; ++i) body += R"(, {"role": "user", "content": "x"})";
  const Pending pending = AskAndAwait("/tokenize", body + "]}");
  EXPECT_EQ(router::StatusOf(*pending.exchange->Take().head), 200);
  EXPECT_GE(dynamic_cast<const router::Strand&>(*pending.exchange).num_work_bytes(),
            100 * router::PromptEncoder::kMessageWorkBytes);
}

TEST_F(AnswerMemoryTest, AStreamWithoutRoomEndsWithAnError) {
  StartAll(6 << 10);
  HoldForwards();
  Pending first = Ask("/v1/completions", R"({"prompt": "x", "max_tokens": 5, "stream": true})");
  Pending second = Ask("/v1/completions", R"({"prompt": "y", "max_tokens": 5, "stream": true})");
  ReleaseForwards();
  first.signal->Await(1);
  second.signal->Await(1);
  std::vector<int> statuses;
  for (const Pending* const pending : {&first, &second}) {
    statuses.push_back(router::StatusOf(*pending->exchange->Take().head));
  }
  EXPECT_THAT(statuses, ::testing::UnorderedElementsAre(200, 429));
  first.exchange.reset();
  second.exchange.reset();
  ExpectHeld(0);
  ExpectEverythingBack();
}

}  // namespace
}  // namespace lockstep::testing
