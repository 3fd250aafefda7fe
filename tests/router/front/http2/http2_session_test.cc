#include "router/front/http2/http2_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/router/front/http2/http2_session_fixture.h"
#include "tests/support/http2_frames.h"

namespace lockstep::router {
namespace {

TEST_F(Http2SessionTest, ARequestIsShownWithItsHeaderAndThenItsBody) {
  EXPECT_FALSE(session_->any_request_yet());
  EXPECT_TRUE(Receive(Request(1, /*ends=*/false, {{"authorization", "Bearer x"}})));
  EXPECT_EQ(requests_.at(1).fields.Find(":path"), "/path");
  EXPECT_EQ(requests_.at(1).fields.FindOnly("authorization"), "Bearer x");
  EXPECT_FALSE(requests_.at(1).ends);
  EXPECT_TRUE(Receive(Frame(kData, 0, 1, "hello ")));
  EXPECT_FALSE(streams_.at(1)->ended);
  EXPECT_TRUE(Receive(Frame(kData, kEndStream, 1, "world")));
  EXPECT_EQ(streams_.at(1)->body, "hello world");
  EXPECT_TRUE(streams_.at(1)->ended);
  EXPECT_TRUE(session_->any_request_yet());
}

TEST_F(Http2SessionTest, AnAnswerIsAHeadABodyAndTrailers) {
  Receive(Request(1, /*ends=*/true));
  Answer(1, {.head = OkHead(), .body = "first"});
  EXPECT_EQ(streams_.at(1)->num_written, 1);
  EXPECT_EQ(Seen(kHeaders, 1).size(), 1u);
  EXPECT_EQ(streams_.at(1)->num_closed, 0);
  Answer(1, {.body = "second", .trailers = {{"grpc-status", "0"}}, .last = true});
  EXPECT_EQ(NumDataBytes(1), 11u);
  ASSERT_EQ(Seen(kHeaders, 1).size(), 2u);
  EXPECT_EQ(Seen(kHeaders, 1)[1].flags & kEndStream, kEndStream);
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
  EXPECT_EQ(session_->num_streams(), 0u);
}

TEST_F(Http2SessionTest, AClientMayMeasureTheWayWithAPingForEachPieceOfAnAnswer) {
  Receive(Request(1, /*ends=*/true));
  Answer(1, {.head = OkHead()});
  const std::string ping = Frame(kPing, 0, 0, std::string(8, 'x'));
  for (int i = 0; i < 10'000; ++i) {
    seen_.clear();
    Answer(1, {.body = "a token"});
    ASSERT_EQ(Seen(kData, 1).size(), 1u) << i;
    // As grpc-go does: it grants the connection's window again first.
    ASSERT_TRUE(Receive(Frame(kWindowUpdate, 0, 0, BigEndian(7)) + ping +
                        Frame(kWindowUpdate, 0, 1, BigEndian(7))))
        << i << ": " << session_->violation();
    ASSERT_EQ(Seen(kPing, 0).size(), 1u) << i;
  }
}

TEST_F(Http2SessionTest, AClientMayPingOnceForEachAnswer) {
  for (uint32_t id = 1; id < 20'000; id += 2) {
    ASSERT_TRUE(Receive(Request(id, /*ends=*/true)));
    Answer(static_cast<int32_t>(id), {.head = OkHead(), .last = true});
    ASSERT_TRUE(Receive(Frame(kPing, 0, 0, std::string(8, 'x')))) << id;
  }
}

TEST_F(Http2SessionTest, PingsWithoutAnAnswerAreAFlood) {
  int num_pings = 0;
  while (Receive(Frame(kPing, 0, 0, std::string(8, 'x'))) && num_pings < 10'000) ++num_pings;
  EXPECT_EQ(num_pings, 120);
  ExpectEnded("too many PINGs");
}

TEST_F(Http2SessionTest, AnAnswerOfAHeadAloneIsOneFrame) {
  Receive(Request(1, /*ends=*/true));
  Answer(1, {.head = HeaderList{{":status", "200"}, {"grpc-status", "12"}}, .last = true});
  ASSERT_EQ(Seen(kHeaders, 1).size(), 1u);
  EXPECT_EQ(Seen(kHeaders, 1)[0].flags & kEndStream, kEndStream);
  EXPECT_TRUE(Seen(kData, 1).empty());
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
}

TEST_F(Http2SessionTest, WhoIsAnsweredBeforeTheEndOfTheRequestIsToldToStop) {
  Receive(Request(1, /*ends=*/false));
  Answer(1, {.head = OkHead(), .last = true});
  ASSERT_EQ(Seen(kReset, 1).size(), 1u);
  EXPECT_EQ(ErrorCode(Seen(kReset, 1)[0]), 0u);
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
}

TEST_F(Http2SessionTest, WhatDoesNotFitTheWindowWaitsUntilItDoes) {
  Receive(Request(1, /*ends=*/true));
  Answer(1, {.head = OkHead(), .body = std::string(100'000, 'x')});
  EXPECT_EQ(NumDataBytes(1), 65'535u);
  EXPECT_EQ(streams_.at(1)->num_written, 0);
  EXPECT_TRUE(session_->any_waiting());
  // More is not taken meanwhile.
  streams_.at(1)->next = {.body = "more"};
  session_->Wake(1, now_);
  EXPECT_EQ(streams_.at(1)->next.body, "more");
  Receive(Frame(kWindowUpdate, 0, 0, BigEndian(100'000)) +
          Frame(kWindowUpdate, 0, 1, BigEndian(100'000)));
  // And what was signalled meanwhile is not forgotten.
  EXPECT_EQ(NumDataBytes(1), 100'004u);
  EXPECT_EQ(streams_.at(1)->num_written, 2);
  EXPECT_FALSE(session_->any_waiting());
}

TEST_F(Http2SessionTest, ASlowReaderDelaysNobodyElse) {
  Receive(Request(1, true) + Request(3, true) + Frame(kWindowUpdate, 0, 0, BigEndian(1'000'000)));
  Answer(1, {.head = OkHead(), .body = std::string(100'000, 'x')});
  Answer(3, {.head = OkHead(), .body = "quick", .last = true});
  EXPECT_EQ(NumDataBytes(3), 5u);
  EXPECT_EQ(streams_.at(3)->num_closed, 1);
}

TEST_F(Http2SessionTest, WhoTakesNothingForTooLongIsCutOff) {
  const Http2Session::StallTimeouts timeouts = {.body = std::chrono::minutes(1),
                                                .write = std::chrono::seconds(10)};
  Receive(Request(1, true) + Request(3, true));
  Answer(1, {.head = OkHead(), .body = std::string(100'000, 'x')});
  now_ += std::chrono::seconds(9);
  Receive(Frame(kWindowUpdate, 0, 0, BigEndian(100)) + Frame(kWindowUpdate, 0, 1, BigEndian(100)));
  now_ += std::chrono::seconds(9);  // after the last that was taken
  session_->EndStalledStreams(timeouts, now_);
  See();
  EXPECT_EQ(streams_.at(1)->num_closed, 0);
  now_ += std::chrono::seconds(2);
  session_->EndStalledStreams(timeouts, now_);
  See();
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
  EXPECT_EQ(ErrorCode(Seen(kReset, 1).at(0)), kCancel);
  EXPECT_EQ(streams_.at(3)->num_closed, 0);  // nothing waits for it
}

TEST_F(Http2SessionTest, TheTimeOfAnAnswerBeginsWithIt) {
  const Http2Session::StallTimeouts timeouts = {.body = std::chrono::minutes(1),
                                                .write = std::chrono::seconds(10)};
  Receive(Frame(kSettings, 0, 0, std::string("\0\x04\0\0\0\0", 6)) + Request(1, true));
  now_ += std::chrono::minutes(5);  // of thinking
  streams_.at(1)->next = {.head = OkHead(), .body = "x"};
  session_->Wake(1, now_);
  session_->EndStalledStreams(timeouts, now_);
  See();
  EXPECT_EQ(streams_.at(1)->num_closed, 0);
}

TEST_F(Http2SessionTest, ABodyThatDoesNotEndIsCutOffUnlessItIsAConversation) {
  const Http2Session::StallTimeouts timeouts = {.body = std::chrono::seconds(10),
                                                .write = std::chrono::minutes(1)};
  Receive(Request(1, false) + Request(3, false));
  streams_.at(3)->conversation = true;
  now_ += std::chrono::seconds(11);
  Receive(Frame(kData, 0, 1, "still"));
  session_->EndStalledStreams(timeouts, now_);
  See();
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
  EXPECT_EQ(streams_.at(3)->num_closed, 0);
}

TEST_F(Http2SessionTest, ABodyThatNobodyWantsIsNotGrantedAgain) {
  Receive(Request(1, false));
  streams_.at(1)->wants_body = false;
  const std::string piece(16'000, 'x');
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Receive(Frame(kData, 0, 1, piece)));
  EXPECT_TRUE(Seen(kWindowUpdate, 1).empty());
  streams_.at(1)->wants_body = true;
  session_->Wake(1, now_);
  See();
  EXPECT_FALSE(Seen(kWindowUpdate, 1).empty());
}

TEST_F(Http2SessionTest, ALargeBodyFlows) {
  Receive(Request(1, false));
  const std::string piece(16'000, 'x');
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Receive(Frame(kData, 0, 1, piece)));
  EXPECT_EQ(streams_.at(1)->body.size(), 1'600'000u);
  EXPECT_EQ(streams_.at(1)->num_closed, 0);
}

TEST_F(Http2SessionTest, StreamsThatTheClientResetsAreClosedAtOnce) {
  Receive(Request(1, true));
  Receive(Frame(kReset, 0, 1, BigEndian(kCancel)));
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
  session_->Wake(1, now_);  // nothing happens
  EXPECT_EQ(session_->num_streams(), 0u);
}

TEST_F(Http2SessionTest, HandlersAreTakenLeaveOfWhenTheConnectionGoes) {
  Receive(Request(1, true) + Request(3, false));
  session_.reset();
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
  EXPECT_EQ(streams_.at(3)->num_closed, 1);
}

TEST_F(Http2SessionTest, AHandlerThatAnswersWithoutAHeadResetsItsStream) {
  Receive(Request(1, true));
  Answer(1, {.last = true});
  EXPECT_EQ(ErrorCode(Seen(kReset, 1).at(0)), kCancel);
  EXPECT_EQ(streams_.at(1)->num_closed, 1);
}

TEST_F(Http2SessionTest, MoreStreamsThanAllowedAreRefused) {
  Restart({.max_concurrent_streams = 2});
  Receive(Request(1, true) + Request(3, true) + Request(5, true));
  EXPECT_EQ(session_->num_streams(), 2u);
  ASSERT_EQ(Seen(kReset, 5).size(), 1u);
  EXPECT_EQ(ErrorCode(Seen(kReset, 5)[0]), kRefusedStream);
  EXPECT_FALSE(streams_.contains(5));
}

TEST_F(Http2SessionTest, AHeaderThatIsTooLargeIsAnswered) {
  EXPECT_TRUE(Receive(Request(1, true, {{"x", std::string(15'000, 'y')}})));
  EXPECT_TRUE(streams_.contains(1));
  Fields many;
  for (int i = 0; i < 400; ++i) many.emplace_back("a", "b");
  EXPECT_TRUE(
      Receive(Request(3, true, {{"x", std::string(7000, 'y')}, {"z", std::string(7000, 'y')}})));
  EXPECT_TRUE(Receive(Request(5, true, many)));  // their number counts as well
  EXPECT_TRUE(streams_.contains(3));
  EXPECT_TRUE(streams_.contains(5));
  Fields too_many = many;
  too_many.insert(too_many.end(), many.begin(), many.end());
  EXPECT_TRUE(Receive(Request(7, true, too_many)));
  EXPECT_FALSE(streams_.contains(7));
  EXPECT_EQ(Seen(kHeaders, 7).size(), 1u);
  EXPECT_EQ(session_->num_streams(), 3u);
}

TEST_F(Http2SessionTest, AHeaderThatGrowsWhenItIsDecodedEndsTheConnection) {
  // One entry of 4,000 bytes in the table, and then a byte for each of its repetitions.
  std::string block = Hpack(RequestFields("/path"));
  block += '\x40' + HpackString("x") + HpackString(std::string(3900, 'y'));
  block += std::string(1000, '\xbe');
  EXPECT_FALSE(Receive(Frame(kHeaders, kEndHeaders | kEndStream, 1, block)));
  ExpectEnded("a header is far too large once it is decoded");
}

TEST_F(Http2SessionTest, AFloodOfContinuationsEndsTheConnection) {
  EXPECT_TRUE(Receive(Frame(kHeaders, kEndStream, 1, Hpack(RequestFields("/path")))));
  for (int i = 0; i < Http2HeaderBlock::kMaxContinuations; ++i) {
    EXPECT_TRUE(Receive(Frame(kContinuation, 0, 1, "")));
  }
  EXPECT_FALSE(Receive(Frame(kContinuation, 0, 1, "")));
  ExpectEnded("too many CONTINUATIONs");
  EXPECT_FALSE(Receive(Request(3, true)));
  EXPECT_FALSE(streams_.contains(3));
}

TEST_F(Http2SessionTest, AnAnnouncedGiantOfAFieldEndsTheConnection) {
  // A value that is to have 2^30 bytes, in pieces.
  std::string block = Hpack(RequestFields("/path"));
  block += '\0' + HpackString("x") + "\x7f\x81\xff\xff\xff\x03";
  bool goes_on = Receive(Frame(kHeaders, kEndStream, 1, block));
  int num_frames = 0;
  while (goes_on && num_frames < 100) {
    goes_on = Receive(Frame(kContinuation, 0, 1, std::string(1 << 14, 'y')));
    ++num_frames;
    if (!Seen(kGoAway, 0).empty()) goes_on = false;
  }
  EXPECT_LE(num_frames, 5);
  EXPECT_FALSE(streams_.contains(1));
  EXPECT_FALSE(Seen(kGoAway, 0).empty());
}

TEST_F(Http2SessionTest, RapidResetsEndTheConnection) {
  uint32_t id = 1;
  bool goes_on = true;
  int num_streams = 0;
  while (goes_on && num_streams < 100'000) {
    goes_on = Receive(Request(id, true) + Frame(kReset, 0, id, BigEndian(kCancel)));
    id += 2;
    ++num_streams;
  }
  EXPECT_EQ(num_streams, 3001);
  ExpectEnded("too many streams are reset");
  for (const auto& [stream, handler] : streams_) EXPECT_EQ(handler->num_closed, 1);
}

TEST_F(Http2SessionTest, FramesForAStreamThatIsClosedEndTheConnection) {
  const std::string headers(16'000, '\x82');  // ":method: GET", a byte each
  for (const std::string& frame :
       {Frame(kData, kEndStream, 1, ""), Frame(kHeaders, kEndHeaders | kEndStream, 1, headers)}) {
    Restart({});
    Receive(Request(1, true));
    Answer(1, {.head = OkHead(), .last = true});
    EXPECT_EQ(session_->num_streams(), 0u);
    int num_frames = 0;
    while (Receive(frame) && num_frames < 10'000) ++num_frames;
    EXPECT_EQ(num_frames, 110);
    ExpectEnded("requests end that have not begun");
  }
}

TEST_F(Http2SessionTest, EndsOfRequestsThatWereAnsweredEarlyAreNoViolation) {
  for (uint32_t id = 1; id < 20'000; id += 2) {
    Receive(Request(id, false));
    Answer(static_cast<int32_t>(id), {.head = OkHead(), .last = true});
    EXPECT_EQ(streams_.at(static_cast<int32_t>(id))->num_closed, 1);
    // On its way when the answer was.
    ASSERT_TRUE(Receive(Frame(kData, kEndStream, id, "x"))) << id;
  }
}

TEST_F(Http2SessionTest, WhoeverLeavesAnswersUnreadIsBackedUp) {
  bool goes_on = true;
  for (int i = 0; i < 110 && goes_on; ++i) {
    goes_on = session_->Receive(Frame(kPing, 0, 0, std::string(8, 'x')), now_);
  }
  EXPECT_FALSE(session_->backed_up());  // not yet: pings are few
  for (uint32_t id = 1; id < 2000; id += 2) {
    session_->Receive(Request(id, true), now_);
    streams_.at(static_cast<int32_t>(id))->next = {.head = OkHead(), .last = true};
    session_->Wake(static_cast<int32_t>(id), now_);
  }
  EXPECT_TRUE(session_->backed_up());
  See();
  EXPECT_FALSE(session_->backed_up());
}

TEST_F(Http2SessionTest, GoAwayLetsOpenStreamsEnd) {
  Receive(Request(1, true));
  session_->GoAway();
  session_->GoAway();
  See();
  EXPECT_EQ(Seen(kGoAway, 0).size(), 1u);
  EXPECT_EQ(ErrorCode(Seen(kGoAway, 0)[0]), 0u);
  Receive(Request(3, true));
  EXPECT_FALSE(streams_.contains(3));
  EXPECT_FALSE(session_->over());
  Answer(1, {.head = OkHead(), .body = "late", .last = true});
  EXPECT_EQ(NumDataBytes(1), 4u);
  EXPECT_TRUE(session_->over());
}

TEST_F(Http2SessionTest, AnAnnouncedEndTakesStreamsUntilTheClientKnowsOfIt) {
  Receive(Request(1, true));
  session_->AnnounceEnd();
  session_->AnnounceEnd();
  See();
  ASSERT_EQ(Seen(kGoAway, 0).size(), 1u);
  EXPECT_EQ(Seen(kGoAway, 0)[0].payload, BigEndian(0x7fff'ffff) + BigEndian(0));
  const std::vector<SeenFrame> pings = Seen(kPing, 0);
  ASSERT_EQ(pings.size(), 1u);
  EXPECT_EQ(seen_.back().type, kPing) << "its answer says that the goodbye was read";
  Receive(Frame(kPing, kAck, 0, "12345678"));  // the answer to another one
  Receive(Request(3, true));
  EXPECT_TRUE(streams_.contains(3));
  Receive(Frame(kPing, kAck, 0, pings[0].payload));
  ASSERT_EQ(Seen(kGoAway, 0).size(), 2u);
  EXPECT_EQ(Seen(kGoAway, 0)[1].payload, BigEndian(3) + BigEndian(0));
  Receive(Request(5, true));
  EXPECT_FALSE(streams_.contains(5));
  for (const int32_t id : {1, 3}) {
    EXPECT_FALSE(session_->over());
    Answer(id, {.head = OkHead(), .last = true});
  }
  EXPECT_TRUE(session_->over());
}

TEST_F(Http2SessionTest, WhatIsNoHttp2EndsTheConnection) {
  Http2Session session({},
                       [](StreamRequest, int32_t) { return std::make_shared<ScriptedStream>(); });
  session.Receive("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", now_);
  std::string sent;
  session.Send(1 << 20, now_, sent);
  EXPECT_TRUE(session.over());
}

TEST_F(Http2SessionTest, TrailersOfARequestAreOfNoInterest) {
  Receive(Request(1, false));
  EXPECT_TRUE(Receive(Frame(kHeaders, kEndHeaders | kEndStream, 1, Hpack({{"x", "y"}}))));
  EXPECT_TRUE(streams_.at(1)->ended);
  EXPECT_EQ(requests_.at(1).fields.Find("x"), "");
}

}  // namespace
}  // namespace lockstep::router
