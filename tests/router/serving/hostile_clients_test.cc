#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/check.h"
#include "tests/router/serving/serving_fixture.h"

// Clients that stop reading, vanish without a word, or send more than there is room for.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;

class HostileClientsTest : public ServingTest {
 protected:
  // A connection of its own, whose client never grants more than the first window of a stream.
  std::unique_ptr<v1::Generation::Stub> ConnectWithFixedWindow() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return v1::Generation::NewStub(grpc::CreateCustomChannel(
        FormatAddress(router_->address()), grpc::InsecureChannelCredentials(), arguments));
  }
  // An answer many times larger than that window of 64 KiB.
  static v1::GenerateRequest LargeAnswer() {
    v1::GenerateRequest request = TextRequest("x", 4000);
    request.mutable_output()->set_logprobs(20);
    return request;
  }
  // Waits until so many calls were cut off and nothing of them is left, although nobody reads.
  void ExpectCutOff(int num_calls) {
    const auto ended_with = [this](absl::StatusCode code) {
      return router::RouterMetrics::At(metrics_.requests_total, code).Value();
    };
    // What the engine gave up counts as such once no more than a message of it is left.
    Eventually("the calls are cut off", [&] {
      return ended_with(absl::StatusCode::kCancelled) + ended_with(absl::StatusCode::kAborted) ==
             num_calls;
    });
    Eventually("they are gone",
               [&] { return router_->engine().admission().counts().open_requests == 0; });
  }
};

TEST_F(HostileClientsTest, WhoNeverReadsIsCutOffOnceTheAnswerIsComplete) {
  router_config_.api.stalled_client_timeout = absl::Milliseconds(100);
  StartBoth();
  grpc::ClientContext context;
  v1::GenerateRequest request = LargeAnswer();
  request.set_request_id("stuck");
  const auto stuck = ConnectWithFixedWindow();
  const auto reader = stuck->Generate(&context, request);
  EXPECT_EQ(Generate(TextRequest("Hello", 50)).Text(), Continuation(6, 50));
  ExpectCutOff(1);
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
  ExpectEverythingBack();
  request.mutable_stop()->set_max_tokens(2);
  EXPECT_TRUE(Generate(request).status.ok());  // the id is free again
}

TEST_F(HostileClientsTest, WhomTheEngineGaveUpIsCutOffToo) {
  router_config_.api.stalled_client_timeout = absl::Milliseconds(100);
  router_config_.engine.max_pending_output_bytes = 4096;
  StartBoth();
  // Many at once, on few threads: none of them is blocked.
  const auto stuck = ConnectWithFixedWindow();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  for (int i = 0; i < 8; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stuck->Generate(contexts.back().get(), LargeAnswer()));
  }
  // The engine gives them up for what waits for them; their calls are left.
  ExpectCutOff(8);
  for (const auto& reader : readers) EXPECT_FALSE(ReadAll(*reader).status.ok());
  ExpectEverythingBack();
  EXPECT_EQ(Generate(TextRequest("Hello", 50)).Text(), Continuation(6, 50));
}

// A TCP connection that speaks HTTP/2 no further than its first frames.
class SilentConnection {
 public:
  explicit SilentConnection(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    LOCKSTEP_CHECK(
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
        "the router listens");
    constexpr std::string_view kPrefaceAndEmptySettings(
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 24 + 9);
    LOCKSTEP_CHECK(::send(socket_, kPrefaceAndEmptySettings.data(), kPrefaceAndEmptySettings.size(),
                          0) == static_cast<ssize_t>(kPrefaceAndEmptySettings.size()),
                   "the first bytes of a connection fit its buffer");
  }
  SilentConnection(const SilentConnection&) = delete;
  SilentConnection& operator=(const SilentConnection&) = delete;
  ~SilentConnection() { ::close(socket_); }

  // Reads without an answer to anything; false when nothing more came for 30 s.
  bool WaitUntilClosed() {
    char buffer[1024];
    for (;;) {
      const ssize_t size = ::recv(socket_, buffer, sizeof(buffer), 0);
      if (size == 0) return true;
      if (size < 0) return errno == ECONNRESET;
    }
  }

 private:
  const int socket_;
};

TEST_F(HostileClientsTest, WhoDoesNotAnswerPingsIsDisconnected) {
  router_config_.front.keepalive_time = absl::Milliseconds(100);
  router_config_.front.keepalive_timeout = absl::Milliseconds(100);
  StartBoth();
  SilentConnection connection(router_->address().port);
  EXPECT_TRUE(connection.WaitUntilClosed());
  EXPECT_EQ(Generate(TextRequest("Hello", 5)).Text(), Continuation(6, 5));
}

TEST_F(HostileClientsTest, AFloodOfBytesIsCutOffAndPasses) {
  router_config_.front.max_connection_memory_mib = 16;
  router_config_.api.limits.max_prompt_bytes = 8 << 20;
  router_config_.engine.admission.max_waiting_tokens = 1 << 30;
  StartBoth();
  std::atomic<int> num_cut_off = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 24; ++i) {
    clients.emplace_back([&] {
      const auto stub = ConnectWithFixedWindow();
      grpc::ClientContext context;
      const Reply reply =
          ReadAll(*stub->Generate(&context, TextRequest(std::string(8 << 20, 'x'), 1)));
      // A message that came through is refused by the router itself: the prompt is too long.
      if (reply.status.error_code() != grpc::StatusCode::INVALID_ARGUMENT) ++num_cut_off;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(num_cut_off, 0);
  Eventually("the router serves again",
             [&] { return Generate(TextRequest("Hello", 5)).Text() == Continuation(6, 5); });
  ExpectEverythingBack();
}

}  // namespace
}  // namespace lockstep::testing
