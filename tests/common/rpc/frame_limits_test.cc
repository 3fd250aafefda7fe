#include "common/rpc/frame_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/http2_frames.h"

namespace lockstep {
namespace {

using testing::Frame;
using ::testing::IsNull;
using ::testing::StrEq;

constexpr FrameLimits::Time kNow{std::chrono::seconds(1000)};

std::string Repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(FrameLimitsTest, OrdinaryTrafficPasses) {
  FrameLimits limits(0);
  const std::string settings = Frame(Http2Frame::kSettings, 0, 0);
  const std::string head = Frame(Http2Frame::kHeaders, Http2Frame::kEndHeaders, 1, "block");
  EXPECT_THAT(limits.Look(settings + head, kNow), IsNull());
  // A library of gRPC answers each message with updates of the window and a PING.
  const std::string answers = Frame(Http2Frame::kData, 0, 1, std::string(100, 'x')) +
                              Frame(Http2Frame::kWindowUpdate, 0, 0, "1234") +
                              Frame(Http2Frame::kWindowUpdate, 0, 1, "1234") +
                              Frame(Http2Frame::kPing, 0, 0, "12345678");
  for (int i = 0; i < 100'000; ++i) {
    limits.OnDataSent();
    ASSERT_THAT(limits.Look(answers, kNow), IsNull()) << i;
  }
}

TEST(FrameLimitsTest, WhatMakesTheConnectionEnd) {
  const std::string begin = Frame(Http2Frame::kHeaders, 0, 1, "x");
  const std::string more = Frame(Http2Frame::kContinuation, 0, 1);
  const struct {
    std::string bytes;
    const char* reason;
  } cases[] = {
      {begin + Repeated(more, 9), "too many CONTINUATIONs"},
      {begin + Repeated(Frame(Http2Frame::kContinuation, 0, 1, std::string(16'000, 'x')), 5),
       "a header block is too large"},
      {more, "a CONTINUATION continues nothing"},
      {begin + Frame(Http2Frame::kPing, 0, 0, "12345678"), "a header block is interrupted"},
      {begin + begin, "a header block is interrupted"},
      {Frame(Http2Frame::kPushPromise, 0, 1, "x"), "a stream is promised"},
      {Frame(Http2Frame::kData, 0, 1, std::string(16'385, 'x')), "a frame is larger than allowed"},
      {Repeated(Frame(Http2Frame::kSettings, 0, 0), 3001), "too many frames that carry nothing"},
      {Repeated(Frame(Http2Frame::kPing, 0, 0, "12345678"), 3001),
       "too many frames that carry nothing"},
      {Repeated(Frame(Http2Frame::kWindowUpdate, 0, 0, "1234"), 3001),
       "too many frames that carry nothing"},
      {Repeated(Frame(Http2Frame::kReset, 0, 1, "1234"), 3001),
       "too many frames that carry nothing"},
      {Repeated(Frame(Http2Frame::kData, 0, 1), 3001), "too many frames that carry nothing"},
      {Repeated(Frame(0x77, 0, 1), 3001), "too many frames that carry nothing"},
      {Repeated(Frame(Http2Frame::kHeaders, Http2Frame::kEndHeaders, 1, "x"), 1501),
       "too many header blocks"}};
  for (const auto& [bytes, reason] : cases) {
    FrameLimits at_once(0);
    EXPECT_THAT(at_once.Look(bytes, kNow), StrEq(reason));
    FrameLimits in_pieces(0);
    const char* found = nullptr;
    for (size_t i = 0; i < bytes.size() && found == nullptr; i += 7) {
      found = in_pieces.Look(std::string_view(bytes).substr(i, 7), kNow);
    }
    EXPECT_THAT(found, StrEq(reason)) << "in pieces";
  }
}

TEST(FrameLimitsTest, TimeAllowsMore) {
  FrameLimits limits(0);
  const std::string pings = Repeated(Frame(Http2Frame::kPing, 0, 0, "12345678"), 900);
  for (int second = 0; second < 100; ++second) {
    ASSERT_THAT(limits.Look(pings, kNow + std::chrono::seconds(second)), IsNull()) << second;
  }
}

}  // namespace
}  // namespace lockstep
