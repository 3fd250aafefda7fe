#include "router/front/http2_connection.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "router/grpc/standard_services.h"
#include "tests/router/front/http2_frames.h"
#include "tests/router/grpc/grpc_test_server.h"

// Connections by hand, over real sockets.
namespace lockstep::router {
namespace {

using namespace lockstep::testing;  // NOLINT: frames, by hand

const Fields kGrpc = {{"content-type", "application/grpc"}};
const std::string kNoMessage(5, '\0');  // of no bytes

std::string Call(uint32_t stream, const std::string& path) {
  return Frame(kHeaders, kEndHeaders, stream, Hpack(RequestFields(path, kGrpc))) +
         Frame(kData, kEndStream, stream, kNoMessage);
}
const std::string kCheck = "/grpc.health.v1.Health/Check";
const std::string kWatch = "/grpc.health.v1.Health/Watch";

class Client {
 public:
  // The kernel's buffer for what comes is of its own choice when `receive_bytes` is 0.
  explicit Client(uint16_t port, int receive_bytes = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(fd_); }

  // False once the other side has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // The next one of this type; nothing when the connection ends before.
  std::optional<SeenFrame> Await(uint8_t type) {
    for (;;) {
      while (!frames_.empty()) {
        SeenFrame frame = std::move(frames_.front());
        frames_.erase(frames_.begin());
        if (frame.type == type) return frame;
      }
      if (!Read()) return std::nullopt;
    }
  }
  // True when the other side closed; frames before that are of no interest.
  bool AwaitEnd() {
    while (Read()) {
    }
    return ended_;
  }

 private:
  bool Read() {
    char buffer[4096];
    const ssize_t count = ::recv(fd_, buffer, sizeof(buffer), 0);
    ended_ = count == 0 || (count < 0 && errno == ECONNRESET);
    if (count <= 0) return false;
    received_.append(buffer, static_cast<size_t>(count));
    for (SeenFrame& frame : TakeFrames(received_)) frames_.push_back(std::move(frame));
    return true;
  }

  const int fd_;
  std::string received_;
  std::vector<SeenFrame> frames_;
  bool ended_ = false;
};

// Answers with more than any kernel keeps for a client that does not read.
class LargeAnswer final : public StreamHandler {
 public:
  static constexpr size_t kBytes = size_t{32} << 20;

  explicit LargeAnswer(const std::shared_ptr<OutputSignal>& signal) { signal->OnOutput(); }
  void OnBody(std::string_view) override {}
  void OnBodyEnd() override {}
  Output Take() override {
    if (std::exchange(taken_, true)) return {};
    return {.head = HeaderList{{":status", "200"}}, .body = std::string(kBytes, 'x'), .last = true};
  }
  void OnWritten() override {}
  void OnClosed() override {}

 private:
  bool taken_ = false;
};

class Http2ConnectionTest : public ::testing::Test {
 protected:
  void Start(const ConnectionLimits& limits) {
    services_.AddTo(methods_);
    server_.emplace(methods_, limits);
  }

  ConnectionLimits limits_ = GrpcTestServer::Limits();
  StandardServices services_{"service", /*reflection=*/false};
  GrpcServices methods_{size_t{1} << 20};
  std::optional<GrpcTestServer> server_;
};

TEST_F(Http2ConnectionTest, ThePrefaceMayComeByteByByte) {
  Start(limits_);
  Client client(server_->port());
  const std::string bytes = Preface() + Call(1, kCheck);
  for (const char byte : bytes) ASSERT_TRUE(client.Send({&byte, 1}));
  EXPECT_EQ(client.Await(kData)->payload, std::string("\0\0\0\0\2\x08\1", 7));
}

TEST_F(Http2ConnectionTest, WhoAsksForNothingIsDisconnected) {
  limits_.header_timeout = absl::Milliseconds(50);
  Start(limits_);
  Client silent(server_->port());
  EXPECT_TRUE(silent.AwaitEnd());
  Client halfway(server_->port());
  halfway.Send(Preface().substr(0, 10));
  EXPECT_TRUE(halfway.AwaitEnd());
  Client idle(server_->port());
  idle.Send(Preface());
  EXPECT_TRUE(idle.AwaitEnd());
}

TEST_F(Http2ConnectionTest, AHeaderThatDoesNotEndIsNotAwaitedForEver) {
  limits_.header_timeout = absl::Milliseconds(50);
  limits_.keepalive_time = absl::Hours(1);  // which would end it as well
  Start(limits_);
  const std::string block = Hpack(RequestFields(kCheck, kGrpc));
  std::string cut = Frame(kHeaders, kEndHeaders, 3, block);
  cut.pop_back();
  for (const std::string& unfinished : {Frame(kHeaders, 0, 3, block), cut}) {
    Client client(server_->port());
    client.Send(Preface() + Call(1, kWatch));
    EXPECT_TRUE(client.Await(kData).has_value());
    client.Send(unfinished);
    EXPECT_TRUE(client.AwaitEnd());
  }
}

TEST_F(Http2ConnectionTest, IdleConnectionsEndWithAGoodbye) {
  limits_.idle_timeout = absl::Milliseconds(50);
  Start(limits_);
  Client client(server_->port());
  client.Send(Preface() + Call(1, kCheck));
  const std::optional<SeenFrame> goodbye = client.Await(kGoAway);
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(ErrorCode(*goodbye), 0u);
  EXPECT_TRUE(client.AwaitEnd());
  EXPECT_EQ(server_->metrics().ended_for_violation->Value(), 0);
}

TEST_F(Http2ConnectionTest, PingsKeepAConnectionWhoseClientAnswers) {
  limits_.keepalive_time = absl::Milliseconds(20);
  limits_.keepalive_timeout = absl::Minutes(1);
  Start(limits_);
  Client client(server_->port());
  client.Send(Preface() + Call(1, kWatch));
  for (int i = 0; i < 5; ++i) {
    const std::optional<SeenFrame> ping = client.Await(kPing);
    ASSERT_TRUE(ping.has_value());
    ASSERT_TRUE(client.Send(Frame(kPing, kAck, 0, ping->payload)));
  }
}

TEST_F(Http2ConnectionTest, WhoDoesNotAnswerPingsIsDisconnected) {
  limits_.keepalive_time = absl::Milliseconds(20);
  limits_.keepalive_timeout = absl::Milliseconds(20);
  Start(limits_);
  Client client(server_->port());
  client.Send(Preface() + Call(1, kWatch));
  EXPECT_TRUE(client.AwaitEnd());
}

TEST_F(Http2ConnectionTest, FinishingTellsAndLetsCallsEnd) {
  Start(limits_);
  Client watcher(server_->port());
  watcher.Send(Preface() + Call(1, kWatch));
  EXPECT_TRUE(watcher.Await(kData).has_value());
  Client idle(server_->port());
  idle.Send(Preface() + Call(1, kCheck));
  EXPECT_TRUE(idle.Await(kData).has_value());
  server_->Finish(absl::ZeroDuration());
  EXPECT_TRUE(idle.Await(kGoAway).has_value());
  EXPECT_TRUE(idle.AwaitEnd());
  EXPECT_TRUE(watcher.Await(kGoAway).has_value());
  services_.SetServing(true);  // nothing new for who watches another name
  watcher.Send(Frame(kReset, 0, 1, BigEndian(8)));
  EXPECT_TRUE(watcher.AwaitEnd());
}

TEST_F(Http2ConnectionTest, AFloodIsEndedAndCounted) {
  Start(limits_);
  Client client(server_->port());
  client.Send(Preface() + Call(1, kCheck));
  std::string pings;
  for (int i = 0; i < 10'000; ++i) pings += Frame(kPing, 0, 0, std::string(8, 'x'));
  client.Send(pings);
  const std::optional<SeenFrame> goodbye = client.Await(kGoAway);
  if (goodbye.has_value()) {
    EXPECT_EQ(ErrorCode(*goodbye), kEnhanceYourCalm);
  }
  EXPECT_TRUE(client.AwaitEnd());
  EXPECT_EQ(server_->metrics().ended_for_violation->Value(), 1);
}

TEST_F(Http2ConnectionTest, WhatBreaksTheProtocolIsEndedAndCounted) {
  Start(limits_);
  Client client(server_->port());
  client.Send(Preface() + Call(1, kCheck) + Frame(kData, 0, 0, "of no stream"));
  const std::optional<SeenFrame> goodbye = client.Await(kGoAway);
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(ErrorCode(*goodbye), kProtocolError);
  EXPECT_TRUE(client.AwaitEnd());
  EXPECT_EQ(server_->metrics().ended_for_violation->Value(), 1);
}

TEST_F(Http2ConnectionTest, AConnectionGoesOnWhenOthersHoldTheWholeBudget) {
  server_.emplace(
      [](StreamRequest, std::shared_ptr<OutputSignal> signal) {
        return std::make_shared<LargeAnswer>(signal);
      },
      limits_);
  ByteBudget::Share others(server_->memory());
  others.ResizeAnyway(server_->kMemoryBytes);
  Client client(server_->port(), /*receive_bytes=*/4096);
  client.Send(Preface() + Frame(kSettings, 0, 0, std::string("\0\x04\x7f\xff\xff\xff", 6)) +
              Frame(kWindowUpdate, 0, 0, BigEndian(0x7fff'0000)) +
              Frame(kHeaders, kEndHeaders | kEndStream, 1, Hpack(RequestFields("/"))));
  ASSERT_TRUE(client.Await(kHeaders).has_value());
  // Until the kernel takes no more.
  while (server_->held_bytes() == others.bytes() && server_->num_connections() > 0) {
    std::this_thread::yield();
  }
  EXPECT_LE(server_->held_bytes() - others.bytes(), FrameGuard::kMaxFrameBytes + 9);
  size_t num_bytes = 0;
  for (bool ended = false; !ended;) {
    const std::optional<SeenFrame> data = client.Await(kData);
    ASSERT_TRUE(data.has_value()) << "after " << num_bytes << " bytes";
    num_bytes += data->payload.size();
    ended = (data->flags & kEndStream) != 0;
  }
  EXPECT_EQ(num_bytes, LargeAnswer::kBytes);
}

TEST_F(Http2ConnectionTest, OneSlowReaderHoldsNoMoreThanItsAnswers) {
  limits_.write_timeout = absl::Milliseconds(100);
  Start(limits_);
  Client client(server_->port());
  // No window at all: answers cannot leave.
  client.Send(Preface() + Frame(kSettings, 0, 0, std::string("\0\x04\0\0\0\0", 6)) +
              Call(1, kWatch));
  const std::optional<SeenFrame> reset = client.Await(kReset);
  ASSERT_TRUE(reset.has_value());
  EXPECT_EQ(reset->stream, 1u);
  client.Send(Call(3, "/a.B/C"));  // the connection is all right
  EXPECT_TRUE(client.Await(kHeaders).has_value());
  EXPECT_EQ(server_->held_bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::router
