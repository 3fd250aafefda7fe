#include "common/rpc/rpc_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/support/http2_frames.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Frame;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RawMessage;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Kind = RpcEvent::Kind;

constexpr RpcSession::Time kSessionNow{std::chrono::seconds(1000)};
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Describe(const RpcEvent& event) {
  switch (event.kind) {
    case Kind::kCall:
      return "call " + event.bytes;
    case Kind::kMessage:
      return event.bytes.size() > 20 ? fmt::format("message of {} bytes", event.bytes.size())
                                     : "message " + event.bytes;
    case Kind::kHalfClose:
      return "half-close";
    case Kind::kEnd:
      return event.status.ok()
                 ? "end OK"
                 : fmt::format("end {} {}", absl::StatusCodeToString(event.status.code()),
                               Message(event.status));
  }
  return "";
}

// Two sessions, and the bytes between them.
class RpcSessionTest : public ::testing::Test {
 protected:
  // Until neither has anything to send.
  void Pump() {
    for (std::string bytes = "x"; !bytes.empty();) {
      bytes.clear();
      client_.Pull(SIZE_MAX, bytes);
      if (!bytes.empty()) server_.Receive(bytes, kSessionNow);
      std::string answer;
      server_.Pull(SIZE_MAX, answer);
      if (!answer.empty()) client_.Receive(answer, kSessionNow);
      bytes += answer;
    }
  }
  static std::vector<std::string> Take(RpcSession& session) {
    std::vector<std::string> texts;
    for (const RpcEvent& event : session.TakeEvents()) texts.push_back(Describe(event));
    return texts;
  }
  RpcSession::CallId Call(const char* path = "/a.B/C") {
    return client_.Call("localhost", "http", path);
  }

  RpcSession client_{RpcRole::kClient, {.max_message_bytes = 1000, .num_messages = 2}};
  RpcSession server_{RpcRole::kServer, {.call_window_bytes = 1000, .max_message_bytes = 100}};
};

TEST_F(RpcSessionTest, ACallAndItsAnswer) {
  const auto call = Call();
  client_.Send(call, RawMessage("question"));
  client_.HalfClose(call);
  Pump();
  EXPECT_THAT(Take(server_), ElementsAre("call /a.B/C", "message question", "half-close"));
  server_.Send(call, RawMessage("answer"));
  server_.Send(call, RawMessage(""));
  server_.Finish(call, absl::OkStatus());
  Pump();
  EXPECT_THAT(Take(server_), ElementsAre("end OK"));
  EXPECT_THAT(Take(client_), ElementsAre("message answer", "message ", "end OK"));
  EXPECT_EQ(client_.num_calls(), 0u);
  EXPECT_EQ(server_.num_calls(), 0u);
}

TEST_F(RpcSessionTest, StatusesArriveAsTheyAre) {
  for (const absl::Status& status :
       {InvalidArgument("50 % \xc3\xa9\n"), Unavailable(""), Internal("{}", std::string(5000, 'x')),
        absl::CancelledError("c")}) {
    const auto call = Call();
    Pump();
    server_.Finish(call, status);
    Pump();
    const std::vector<RpcEvent> events = client_.TakeEvents();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].status.code(), status.code());
    EXPECT_EQ(Message(events[0].status), Message(status).substr(0, 1024));
  }
}

TEST_F(RpcSessionTest, AnEndBeforeTheClientsEndIsTold) {
  const auto call = Call();
  client_.Send(call, RawMessage("1"));
  Pump();
  server_.Send(call, RawMessage("2"));
  server_.Finish(call, FailedPrecondition("no"));
  Pump();
  EXPECT_THAT(Take(client_), ElementsAre("message 2", "end FAILED_PRECONDITION no"));
  EXPECT_EQ(server_.num_calls(), 0u);
}

TEST_F(RpcSessionTest, ACancelledCallEndsOnBothSides) {
  const auto call = Call();
  Pump();
  client_.Cancel(call);
  Pump();
  EXPECT_THAT(Take(client_), ElementsAre("end CANCELLED the call was cancelled"));
  EXPECT_THAT(Take(server_), ElementsAre("call /a.B/C", "end CANCELLED the call was cancelled"));
  server_.Send(call, RawMessage("nobody hears it"));
  server_.Finish(call, absl::OkStatus());
  Pump();
  EXPECT_THAT(Take(client_), IsEmpty());
}

TEST_F(RpcSessionTest, MessagesWaitUntilTheyAreAllowed) {
  const auto call = Call();
  for (const char* const text : {"1", "2", "3"}) client_.Send(call, RawMessage(text));
  client_.HalfClose(call);
  Pump();
  EXPECT_THAT(Take(server_), ElementsAre("call /a.B/C", "message 1"));
  server_.Allow(call, 1, 100);
  EXPECT_THAT(Take(server_), ElementsAre("message 2"));
  server_.Allow(call, 5, 100);
  EXPECT_THAT(Take(server_), ElementsAre("message 3", "half-close"));
}

TEST_F(RpcSessionTest, WhatWaitsIsBoundedByTheWindow) {
  Pump();  // the client knows the window
  const auto call = Call();
  client_.Send(call, RawMessage("1"));
  client_.Send(call, RawMessage(std::string(100'000, 'x')));
  Pump();
  EXPECT_THAT(Take(server_), ElementsAre("call /a.B/C", "message 1"));
  server_.Allow(call, 1, 1 << 20);
  server_.WidenWindow(call, 1 << 20);
  Pump();
  EXPECT_THAT(Take(server_), ElementsAre("message of 100000 bytes"));
}

TEST_F(RpcSessionTest, WhoDoesNotKnowTheWindowMayNotSendMore) {
  const auto call = Call();
  client_.Send(call, RawMessage("1"));
  client_.Send(call, RawMessage(std::string(5000, 'x')));
  Pump();
  EXPECT_THAT(Take(server_),
              ElementsAre("call /a.B/C", "message 1",
                          "end RESOURCE_EXHAUSTED more messages come than are asked for"));
}

TEST_F(RpcSessionTest, AMessageAboveTheLimitEndsItsCallOnly) {
  const auto large = Call();
  client_.Send(large, RawMessage(std::string(101, 'x')));
  const auto small = Call("/a.B/D");
  client_.Send(small, RawMessage(std::string(100, 'x')));
  Pump();
  EXPECT_THAT(Take(server_),
              ElementsAre("call /a.B/C", "call /a.B/D",
                          "end RESOURCE_EXHAUSTED a message has 101 bytes, more than 100",
                          "message of 100 bytes"));
  EXPECT_THAT(Take(client_),
              ElementsAre("end RESOURCE_EXHAUSTED a message has 101 bytes, more than 100"));
  server_.Send(small, RawMessage(std::string(1001, 'x')));
  Pump();
  EXPECT_THAT(Take(client_),
              ElementsAre("end RESOURCE_EXHAUSTED a message has 1001 bytes, more than 1000"));
  EXPECT_EQ(server_.violation(), nullptr);
}

TEST_F(RpcSessionTest, AMessageThatIsCutShortIsAnError) {
  const auto call = Call();
  client_.Send(call, RawMessage("whole").substr(0, 7));
  client_.HalfClose(call);
  Pump();
  EXPECT_THAT(Take(server_),
              ElementsAre("call /a.B/C", "end INVALID_ARGUMENT the last message is not complete"));
  const auto other = Call();
  client_.Send(other, std::string("\1\0\0\0\1x", 6));
  Pump();
  EXPECT_THAT(Take(server_),
              ElementsAre("call /a.B/C", "end UNIMPLEMENTED messages must not be compressed"));
}

TEST_F(RpcSessionTest, MoreCallsThanAllowedAreRefused) {
  for (int i = 0; i < 20; ++i) Call();
  Pump();
  EXPECT_EQ(server_.num_calls(), 16u);
  EXPECT_EQ(Take(server_).size(), 16u);
  // The client did not know the limit yet.
  EXPECT_THAT(Take(client_),
              AllOf(SizeIs(4), Each(HasSubstr("UNAVAILABLE the stream was reset with REFUSED"))));
}

TEST_F(RpcSessionTest, TheEndOfTheConnectionEndsEveryCall) {
  Call();
  Pump();
  client_.EndAll(Unavailable("gone"));
  server_.EndAll(Unavailable("gone"));
  EXPECT_THAT(Take(client_), ElementsAre("end UNAVAILABLE gone"));
  EXPECT_THAT(Take(server_), ElementsAre("call /a.B/C", "end UNAVAILABLE gone"));
}

// What a hostile side sends behind its greeting, and what it may hold afterwards.
TEST_F(RpcSessionTest, AttacksEndTheConnection) {
  const std::string settings = Frame(Http2Frame::kSettings, 0, 0);
  const std::string giant("\x00\x01k\x7f\x81\xff\xff\xff\x03", 9);
  std::string bomb("\x40\x01k\x7f\xd9\x1c", 6);  // a value of 3,800 bytes, into the table
  bomb += std::string(3800, 'v') + std::string(10'000, '\xbe');
  std::string trickle = Frame(Http2Frame::kHeaders, 0, 1, giant);
  for (int i = 0; i < 9; ++i) {
    trickle += Frame(Http2Frame::kContinuation, 0, 1, std::string(1000, 'x'));
  }
  const std::string answer = "\x88";           // :status 200
  const std::string request = "\x83\x86\x84";  // POST, http, /
  const auto whole = [](const std::string& block) {
    return Frame(Http2Frame::kHeaders, Http2Frame::kEndHeaders, 1, block);
  };
  const std::pair<std::string, std::string> cases[] = {
      {trickle, "too many CONTINUATIONs"},
      {"bomb", "a header is too large once it is decoded"},
      {Frame(Http2Frame::kPushPromise, 0, 1, std::string(4, '\0')), "a stream is promised"}};
  for (const auto& [attack, reason] : cases) {
    for (const RpcRole role : {RpcRole::kClient, RpcRole::kServer}) {
      RpcSession session(role, {});
      if (role == RpcRole::kClient) session.Call("localhost", "http", "/a.B/C");
      std::string out;
      session.Pull(SIZE_MAX, out);
      const bool server = role == RpcRole::kServer;
      const std::string bytes =
          attack == "bomb" ? whole((server ? request : answer) + bomb) : attack;
      EXPECT_FALSE(session.Receive((server ? kPreface : "") + settings + bytes, kSessionNow))
          << reason;
      EXPECT_EQ(session.violation(), reason);
      out.clear();
      session.Pull(SIZE_MAX, out);
      EXPECT_FALSE(out.empty()) << "it says so";
    }
  }
}

TEST_F(RpcSessionTest, WhatIsNoGrpcIsRefused) {
  const std::string block("\x82\x86\x84\x41\x01x", 6);  // GET / of x
  RpcSession session(RpcRole::kServer, {});
  session.Receive(std::string(kPreface) + Frame(Http2Frame::kSettings, 0, 0) +
                      Frame(Http2Frame::kHeaders, 5, 1, block),
                  kSessionNow);
  EXPECT_THAT(Take(session), ElementsAre("end INVALID_ARGUMENT only gRPC is served here"));
  EXPECT_FALSE(
      RpcSession(RpcRole::kServer, {}).Receive("GET / HTTP/1.1\r\nHost: x\r\n\r\n", kSessionNow));
}

// A proxy answers with a page that is no gRPC.
TEST_F(RpcSessionTest, AnHttpErrorSaysItsStatusWhateverItsBodyIs) {
  const std::pair<std::string, std::string> cases[] = {
      {std::string("\x08\x03") + "503", "end UNAVAILABLE"},
      {std::string("\x08\x03") + "502", "end UNAVAILABLE"},
      {"\x8d", "end UNIMPLEMENTED"}};  // 404
  for (const auto& [block, expected] : cases) {
    RpcSession session(RpcRole::kClient, {});
    session.Call("localhost", "http", "/a.B/C");
    std::string out;
    session.Pull(SIZE_MAX, out);
    session.Receive(Frame(Http2Frame::kSettings, 0, 0) +
                        Frame(Http2Frame::kHeaders, Http2Frame::kEndHeaders, 1, block) +
                        Frame(/*type=*/0, /*flags=*/1, 1, "<html>no server</html>"),
                    kSessionNow);
    EXPECT_THAT(Take(session), ElementsAre(StartsWith(expected)));
  }
}

TEST_F(RpcSessionTest, WhatTheOtherSideDoesNotTakeIsCounted) {
  const auto call = Call();
  Pump();
  const std::string message(900, 'm');
  for (int i = 0; i < 2000; ++i) server_.Send(call, RawMessage(message));
  EXPECT_EQ(server_.num_output_bytes(), 2000u * 905);
  // The client takes two messages, and as much as its window has room for.
  Pump();
  EXPECT_EQ(server_.num_output_bytes(), 2000u * 905 - (1 << 20));
  EXPECT_EQ(Take(client_).size(), 2u);
  server_.Send(call, RawMessage("last"));
  client_.Allow(call, RpcLimits::kAllMessages, 1000);
  Pump();
  EXPECT_EQ(server_.num_output_bytes(), 0u);
  const std::vector<std::string> rest = Take(client_);
  ASSERT_EQ(rest.size(), 1999u);
  EXPECT_EQ(rest.back(), "message last");
}

}  // namespace
}  // namespace lockstep
