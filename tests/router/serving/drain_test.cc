#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "router/grpc/grpc_wire.h"
#include "tests/router/front/http2_client.h"
#include "tests/router/serving/serving_fixture.h"

// What clients with connections see when the router drains.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;

class DrainTest : public ServingTest {
 protected:
  ~DrainTest() override {
    ReleaseForwards();
    if (drain_.joinable()) drain_.join();
  }
  void BeginDrain() {
    drain_ = std::thread([this] { EXPECT_TRUE(router_->Drain(absl::Seconds(60))); });
  }
  void AwaitEndOfDrain() { drain_.join(); }

 private:
  std::thread drain_;
};

std::string GenerateCall(uint32_t stream, const v1::GenerateRequest& request) {
  const std::string message = request.SerializeAsString();
  std::string framed(router::kMessagePrefixBytes, '\0');
  router::WriteMessagePrefix(message.size(), framed.data());
  return Frame(kHeaders, kEndHeaders, stream,
               Hpack(RequestFields("/lockstep.v1.Generation/Generate",
                                   {{"content-type", "application/grpc"}}))) +
         Frame(kData, kEndStream, stream, framed + message);
}

uint32_t LastStreamOf(const SeenFrame& goodbye) {
  SeenFrame word = goodbye;
  word.type = kReset;  // whose first four bytes are the number
  return ErrorCode(word);
}

TEST_F(DrainTest, OpenStreamsEndWellBehindAGoodbye) {
  StartBoth();
  HoldForwards();
  AllowForwards(2);
  Http2Client client(router_->address().port);
  client.Send(Preface() + GenerateCall(1, TextRequest("Hello", 40)));
  ASSERT_TRUE(client.Await(kData).has_value());
  BeginDrain();
  const std::optional<SeenFrame> goodbye = client.Await(kGoAway);
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(ErrorCode(*goodbye), 0u);
  // What the client had sent by then is answered.
  EXPECT_EQ(LastStreamOf(*goodbye), 0x7fff'ffffu);
  const std::optional<SeenFrame> ping = client.Await(kPing);
  ASSERT_TRUE(ping.has_value());
  client.Send(GenerateCall(3, TextRequest("Hello", 1)));
  const std::optional<SeenFrame> refusal = client.Await(kHeaders);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->stream, 3u);
  EXPECT_NE(refusal->flags & kEndStream, 0);
  EXPECT_THAT(refusal->payload, ::testing::HasSubstr("\2"
                                                     "14"));  // UNAVAILABLE
  client.Send(Frame(kPing, kAck, 0, ping->payload));
  const std::optional<SeenFrame> last_goodbye = client.Await(kGoAway);
  ASSERT_TRUE(last_goodbye.has_value());
  EXPECT_EQ(ErrorCode(*last_goodbye), 0u);
  // A later stream was not processed, which this says: its client may try it again elsewhere.
  EXPECT_EQ(LastStreamOf(*last_goodbye), 3u);
  client.Send(GenerateCall(5, TextRequest("Hello", 1)));
  ReleaseForwards();
  std::optional<SeenFrame> trailers;
  do {
    trailers = client.Await(kHeaders);
    ASSERT_TRUE(trailers.has_value());
    EXPECT_EQ(trailers->stream, 1u) << "stream 5 is answered";
  } while ((trailers->flags & kEndStream) == 0);
  // The value of the only trailer, grpc-status.
  EXPECT_THAT(trailers->payload, ::testing::EndsWith(std::string("\1"
                                                                 "0")));
  EXPECT_TRUE(client.AwaitEnd());
  AwaitEndOfDrain();
}

TEST_F(DrainTest, AnIdleConnectionEndsOnceItsClientKnows) {
  StartBoth();
  HoldForwards();
  Http2Client idle(router_->address().port);
  idle.Send(Preface() + Frame(kPing, 0, 0, "12345678"));
  ASSERT_TRUE(idle.Await(kPing).has_value());
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, TextRequest("Hello", 4));
  Eventually("it is open",
             [this] { return router_->engine().admission().counts().open_requests == 1; });
  BeginDrain();
  ASSERT_TRUE(idle.Await(kGoAway).has_value());
  const std::optional<SeenFrame> ping = idle.Await(kPing);
  ASSERT_TRUE(ping.has_value());
  idle.Send(Frame(kPing, kAck, 0, ping->payload));
  EXPECT_TRUE(idle.AwaitEnd());
  ReleaseForwards();
  EXPECT_TRUE(ReadAll(*reader).status.ok());
  AwaitEndOfDrain();
}

TEST_F(DrainTest, AClientLibraryFinishesItsStreamAndIsRefusedAnother) {
  StartBoth();
  HoldForwards();
  AllowForwards(2);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, TextRequest("Hello", 40));
  v1::GenerateResponse first;
  ASSERT_TRUE(reader->Read(&first));
  BeginDrain();
  Eventually("it drains", [this] { return router_->engine().draining(); });
  ExpectStatus(Generate(TextRequest("Hello", 1)).status, grpc::StatusCode::UNAVAILABLE, "");
  ReleaseForwards();
  const Reply rest = ReadAll(*reader);
  EXPECT_TRUE(rest.status.ok()) << rest.status.error_message();
  ASSERT_NE(rest.Finish(), nullptr);
  EXPECT_EQ(rest.Finish()->reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(rest.Finish()->usage().completion_tokens(), 40u);
  AwaitEndOfDrain();
}

}  // namespace
}  // namespace lockstep::testing
