#include "router/front/http2/http2_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "router/front/http2/frame_guard.h"
#include "router/grpc/standard_services.h"
#include "tests/router/front/http2_client.h"
#include "tests/router/grpc/grpc_test_server.h"
#include "tests/support/http2_frames.h"

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

// Two connections on one thread, a busy one and another. The thread stops in the first thing that
// it does for the busy one, until the other one has asked. Then the server chooses the order.
class TurnOrder {
 public:
  // By the thread of the server.
  void OnBusy() {
    if (num_busy_++ == 0) {
      begun_.count_down();
      asked_.wait();
    }
  }
  void OnOther() {
    num_busy_before_ = num_busy_.load();
    served_.count_down();
  }

  // By the test.
  void AwaitBusy() { begun_.wait(); }
  void OtherHasAsked() { asked_.count_down(); }
  // How often the busy connection was served before the other one.
  int NumBusyBefore() {
    served_.wait();
    return num_busy_before_;
  }

 private:
  std::latch begun_{1};
  std::latch asked_{1};
  std::latch served_{1};
  std::atomic<int> num_busy_ = 0;
  int num_busy_before_ = 0;
};

// Answers at once, piece by piece: each is made when the one before has left.
class ManyPieces final : public StreamHandler {
 public:
  ManyPieces(int num_pieces, size_t piece_bytes, std::function<void()> on_piece,
             std::shared_ptr<OutputSignal> signal)
      : num_left_(num_pieces),
        piece_bytes_(piece_bytes),
        on_piece_(std::move(on_piece)),
        signal_(std::move(signal)) {
    signal_->OnOutput();
  }
  void OnBody(std::string_view) override {}
  void OnBodyEnd() override {}
  Output Take() override {
    if (num_left_ == 0) return {};
    on_piece_();
    Output output{.body = std::string(piece_bytes_, 'x'), .last = --num_left_ == 0};
    if (!std::exchange(begun_, true)) output.head = HeaderList{{":status", "200"}};
    return output;
  }
  void OnWritten() override { signal_->OnOutput(); }
  void OnClosed() override {}

 private:
  int num_left_;
  bool begun_ = false;
  const size_t piece_bytes_;
  const std::function<void()> on_piece_;
  const std::shared_ptr<OutputSignal> signal_;
};

std::string Get(uint32_t stream, const std::string& path) {
  return Frame(kHeaders, kEndHeaders | kEndStream, stream, Hpack(RequestFields(path)));
}

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
  Http2Client client(server_->port());
  const std::string bytes = Preface() + Call(1, kCheck);
  for (const char byte : bytes) ASSERT_TRUE(client.Send({&byte, 1}));
  EXPECT_EQ(client.Await(kData)->payload, std::string("\0\0\0\0\2\x08\1", 7));
}

TEST_F(Http2ConnectionTest, WhoAsksForNothingIsDisconnected) {
  limits_.header_timeout = absl::Milliseconds(50);
  Start(limits_);
  Http2Client silent(server_->port());
  EXPECT_TRUE(silent.AwaitEnd());
  Http2Client halfway(server_->port());
  halfway.Send(Preface().substr(0, 10));
  EXPECT_TRUE(halfway.AwaitEnd());
  Http2Client idle(server_->port());
  idle.Send(Preface());
  EXPECT_TRUE(idle.AwaitEnd());
}

TEST_F(Http2ConnectionTest, AHeaderThatDoesNotEndIsNotAwaitedForEver) {
  limits_.header_timeout = absl::Seconds(1);  // the whole call must come in time
  limits_.keepalive_time = absl::Hours(1);    // which would end it as well
  Start(limits_);
  const std::string block = Hpack(RequestFields(kCheck, kGrpc));
  std::string cut = Frame(kHeaders, kEndHeaders, 3, block);
  cut.pop_back();
  for (const std::string& unfinished : {Frame(kHeaders, 0, 3, block), cut}) {
    Http2Client client(server_->port());
    client.Send(Preface() + Call(1, kWatch));
    EXPECT_TRUE(client.Await(kData).has_value());
    client.Send(unfinished);
    EXPECT_TRUE(client.AwaitEnd());
  }
}

TEST_F(Http2ConnectionTest, IdleConnectionsEndWithAGoodbye) {
  limits_.idle_timeout = absl::Milliseconds(50);
  Start(limits_);
  Http2Client client(server_->port());
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
  Http2Client client(server_->port());
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
  Http2Client client(server_->port());
  client.Send(Preface() + Call(1, kWatch));
  EXPECT_TRUE(client.AwaitEnd());
}

TEST_F(Http2ConnectionTest, FinishingTellsAndLetsCallsEnd) {
  Start(limits_);
  Http2Client watcher(server_->port());
  watcher.Send(Preface() + Call(1, kWatch));
  EXPECT_TRUE(watcher.Await(kData).has_value());
  Http2Client idle(server_->port());
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
  Http2Client client(server_->port());
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
  Http2Client client(server_->port());
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
  Http2Client client(server_->port(), /*receive_bytes=*/4096);
  client.Send(Preface() + Frame(kSettings, 0, 0, std::string("\0\x04\x7f\xff\xff\xff", 6)) +
              Frame(kWindowUpdate, 0, 0, BigEndian(0x7fff'0000)) +
              Frame(kHeaders, kEndHeaders | kEndStream, 1, Hpack(RequestFields("/"))));
  ASSERT_TRUE(client.Await(kHeaders).has_value());
  // Until the kernel takes no more.
  while (server_->held_bytes() == others.bytes() && server_->num_connections() > 0) {
    std::this_thread::yield();
  }
  EXPECT_LE(server_->held_bytes() - others.bytes(), Http2HeaderBlock::kMaxFrameBytes + 9);
  size_t num_bytes = 0;
  for (bool ended = false; !ended;) {
    const std::optional<SeenFrame> data = client.Await(kData);
    ASSERT_TRUE(data.has_value()) << "after " << num_bytes << " bytes";
    num_bytes += data->payload.size();
    ended = (data->flags & kEndStream) != 0;
  }
  EXPECT_EQ(num_bytes, LargeAnswer::kBytes);
}

TEST_F(Http2ConnectionTest, ManyRequestsAtOnceLeaveOthersTheirTurn) {
  static constexpr int kNumRequests = 1000;
  TurnOrder order;
  server_.emplace(
      [&order](const StreamRequest& request, std::shared_ptr<OutputSignal> signal) {
        request.fields.Find(":path") == "/busy" ? order.OnBusy() : order.OnOther();
        return std::make_shared<ManyPieces>(1, 1, [] {}, std::move(signal));
      },
      limits_);
  Http2Client other(server_->port());
  other.Send(Preface() + Frame(kPing, 0, 0, "12345678"));
  ASSERT_TRUE(other.Await(kPing).has_value());
  Http2Client busy(server_->port());
  std::string requests = Preface();
  for (uint32_t i = 0; i < kNumRequests; ++i) requests += Get(2 * i + 1, "/busy");
  ASSERT_TRUE(busy.Send(requests));
  order.AwaitBusy();
  ASSERT_TRUE(other.Send(Get(1, "/other")));
  order.OtherHasAsked();
  EXPECT_LT(order.NumBusyBefore(), kNumRequests / 2);
  EXPECT_TRUE(other.Await(kData).has_value());
  for (int i = 0; i < kNumRequests; ++i) ASSERT_TRUE(busy.Await(kData).has_value()) << i;
}

TEST_F(Http2ConnectionTest, ALongAnswerLeavesOthersTheirTurn) {
  static constexpr int kNumPieces = 64;
  static constexpr size_t kPieceBytes = 16 << 10;
  TurnOrder order;
  server_.emplace(
      [&order](const StreamRequest& request, std::shared_ptr<OutputSignal> signal) {
        if (request.fields.Find(":path") == "/busy") {
          return std::make_shared<ManyPieces>(
              kNumPieces, kPieceBytes, [&order] { order.OnBusy(); }, std::move(signal));
        }
        order.OnOther();
        return std::make_shared<ManyPieces>(1, 1, [] {}, std::move(signal));
      },
      limits_);
  Http2Client other(server_->port());
  other.Send(Preface() + Frame(kPing, 0, 0, "12345678"));
  ASSERT_TRUE(other.Await(kPing).has_value());
  // The kernel takes the whole answer at once, as far as it may.
  Http2Client busy(server_->port(), /*receive_bytes=*/4 << 20);
  busy.Send(Preface() + Frame(kSettings, 0, 0, std::string("\0\x04\x7f\xff\xff\xff", 6)) +
            Frame(kWindowUpdate, 0, 0, BigEndian(0x7fff'0000)) + Get(1, "/busy"));
  order.AwaitBusy();
  ASSERT_TRUE(other.Send(Get(1, "/other")));
  order.OtherHasAsked();
  EXPECT_LE(order.NumBusyBefore(), kNumPieces * 3 / 4);
  EXPECT_TRUE(other.Await(kData).has_value());
  size_t num_bytes = 0;
  while (num_bytes < kNumPieces * kPieceBytes) {
    const std::optional<SeenFrame> data = busy.Await(kData);
    ASSERT_TRUE(data.has_value()) << "after " << num_bytes << " bytes";
    num_bytes += data->payload.size();
  }
}

TEST_F(Http2ConnectionTest, OneSlowReaderHoldsNoMoreThanItsAnswers) {
  limits_.write_timeout = absl::Milliseconds(100);
  Start(limits_);
  Http2Client client(server_->port());
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
