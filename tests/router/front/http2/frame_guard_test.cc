#include "router/front/http2/frame_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "tests/support/http2_frames.h"

namespace lockstep::router {
namespace {

using namespace lockstep::testing;  // NOLINT: frames, by hand
using ::testing::StrEq;

class FrameGuardTest : public ::testing::Test {
 protected:
  FrameGuardTest() { EXPECT_EQ(guard_.Look(Preface(), now_), nullptr); }

  // Counts the frames until the guard says no; its reason is in reason_.
  int CountUntilRefused(const std::string& frame, int at_most = 100'000) {
    for (int i = 0; i < at_most; ++i) {
      reason_ = guard_.Look(frame, now_);
      if (reason_ != nullptr) return i;
    }
    return at_most;
  }

  FrameGuard::Time now_ = FrameGuard::Time() + std::chrono::hours(1);
  FrameGuard guard_;
  const char* reason_ = nullptr;
};

TEST_F(FrameGuardTest, AHeaderBlockIsBoundedBeforeItIsDecoded) {
  const std::string piece(Http2HeaderBlock::kMaxFrameBytes, 'x');
  EXPECT_EQ(guard_.Look(Frame(kHeaders, 0, 1, piece), now_), nullptr);
  EXPECT_TRUE(guard_.in_header_block());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(guard_.Look(Frame(kContinuation, 0, 1, piece), now_), nullptr);
  }
  EXPECT_THAT(guard_.Look(Frame(kContinuation, kEndHeaders, 1, "x"), now_),
              StrEq("a header block is too large"));
}

TEST_F(FrameGuardTest, TheLengthOfAFrameIsRefusedBeforeItsBytesCome) {
  const std::string frame =
      Frame(kHeaders, 0, 1, std::string(Http2HeaderBlock::kMaxFrameBytes + 1, 'x'));
  EXPECT_EQ(guard_.Look(frame.substr(0, 8), now_), nullptr);
  EXPECT_THAT(guard_.Look(frame.substr(8, 1), now_), StrEq("a frame is larger than allowed"));
}

TEST_F(FrameGuardTest, ContinuationsWithoutContentAreCounted) {
  EXPECT_EQ(guard_.Look(Frame(kHeaders, 0, 1, "x"), now_), nullptr);
  EXPECT_EQ(CountUntilRefused(Frame(kContinuation, 0, 1, "")), Http2HeaderBlock::kMaxContinuations);
  EXPECT_THAT(reason_, StrEq("too many CONTINUATIONs"));
}

TEST_F(FrameGuardTest, EveryBlockIsCountedByItself) {
  const std::string piece(Http2HeaderBlock::kMaxFrameBytes, 'x');
  for (uint32_t stream = 1; stream < 100; stream += 2) {
    EXPECT_EQ(guard_.Look(Frame(kHeaders, 0, stream, piece), now_), nullptr);
    EXPECT_EQ(guard_.Look(Frame(kContinuation, kEndHeaders, stream, piece), now_), nullptr);
    EXPECT_FALSE(guard_.in_header_block());
  }
}

TEST_F(FrameGuardTest, ABlockOfOneFrameIsOpenUntilItsLastByte) {
  const std::string frame = Frame(kHeaders, kEndHeaders, 1, "four");
  EXPECT_EQ(guard_.Look(frame.substr(0, 9), now_), nullptr);
  EXPECT_TRUE(guard_.in_header_block());
  EXPECT_EQ(guard_.Look(frame.substr(9, 3), now_), nullptr);
  EXPECT_TRUE(guard_.in_header_block());
  EXPECT_EQ(guard_.Look(frame.substr(12), now_), nullptr);
  EXPECT_FALSE(guard_.in_header_block());
  EXPECT_EQ(guard_.Look(Frame(kData, 0, 1, "four").substr(0, 10), now_), nullptr);
  EXPECT_FALSE(guard_.in_header_block());
  EXPECT_EQ(guard_.num_header_blocks(), 1u);
}

TEST_F(FrameGuardTest, ABlockIsNotInterrupted) {
  EXPECT_EQ(guard_.Look(Frame(kHeaders, 0, 1, "x"), now_), nullptr);
  EXPECT_THAT(guard_.Look(Frame(kPing, 0, 0, std::string(8, 'x')), now_),
              StrEq("a header block is interrupted"));
}

TEST_F(FrameGuardTest, AContinuationOfNothingIsRefused) {
  EXPECT_THAT(guard_.Look(Frame(kContinuation, 0, 1, "x"), now_),
              StrEq("a CONTINUATION continues nothing"));
}

struct Flood {
  const char* name;
  std::string frame;
  int burst;
};

class FrameFloodTest : public FrameGuardTest, public ::testing::WithParamInterface<Flood> {};

TEST_P(FrameFloodTest, IsRefusedAfterABurstAndTakenAgainLater) {
  EXPECT_EQ(CountUntilRefused(GetParam().frame), GetParam().burst);
  ASSERT_NE(reason_, nullptr);
  now_ += std::chrono::seconds(2);
  FrameGuard later;
  EXPECT_EQ(later.Look(Preface(), now_), nullptr);
  // Slowly, as many as anybody likes.
  for (int i = 0; i < 10'000; ++i) {
    now_ += std::chrono::seconds(1);
    ASSERT_EQ(later.Look(GetParam().frame, now_), nullptr) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FrameFloodTest,
    ::testing::Values(Flood{"Ping", Frame(kPing, 0, 0, std::string(8, 'x')), 120},
                      Flood{"Settings", Frame(kSettings, 0, 0, ""), 101},
                      Flood{"Reset", Frame(kReset, 0, 1, std::string(4, '\0')), 3000},
                      Flood{"WindowUpdate", Frame(kWindowUpdate, 0, 0, BigEndian(1)), 11'000},
                      Flood{"EmptyData", Frame(kData, 0, 1, ""), 110},
                      Flood{"EndOfNoRequest", Frame(kData, kEndStream, 1, "x"), 110},
                      Flood{"HeadersOfNoRequest", Frame(kHeaders, kEndHeaders, 0, "x"), 110},
                      Flood{"SmallData", Frame(kData, 0, 1, "x"), 11'000},
                      Flood{"Priority", Frame(kPriority, 0, 1, std::string(5, '\0')), 1100},
                      Flood{"Unknown", Frame(0x77, 0, 1, ""), 1100}),
    [](const auto& flood) { return flood.param.name; });

const std::string kSomePing = Frame(kPing, 0, 0, std::string(8, 'x'));

// What grpc-go sends for a DATA frame when its last PING was answered and both windows are small.
const std::string kAnswerToData = Frame(kWindowUpdate, 0, 0, BigEndian(1)) +
                                  Frame(kWindowUpdate, 0, 0, BigEndian(1)) + kSomePing +
                                  Frame(kWindowUpdate, 0, 1, BigEndian(1));

TEST_F(FrameGuardTest, DataMayBeAnsweredByWindowUpdatesAndAPing) {
  for (int i = 0; i < 100'000; ++i) {
    guard_.OnDataSent();
    ASSERT_EQ(guard_.Look(kAnswerToData, now_), nullptr) << i;
  }
}

TEST_F(FrameGuardTest, DataMayBeAnsweredLate) {
  for (int i = 0; i < 100'000; ++i) guard_.OnDataSent();
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(guard_.Look(kAnswerToData, now_), nullptr) << i;
  // What was sent is used up one day.
  EXPECT_LT(CountUntilRefused(kAnswerToData, 1'000'000), 200'000);
}

TEST_F(FrameGuardTest, HeadersMayBeAnsweredByAPing) {
  for (int i = 0; i < 10'000; ++i) {
    guard_.OnHeadersSent();
    ASSERT_EQ(guard_.Look(kSomePing, now_), nullptr) << i;
  }
}

TEST_F(FrameGuardTest, SmallRequestsMayBeAsManyAsTheirHeaders) {
  for (uint32_t stream = 1; stream < 40'000; stream += 2) {
    ASSERT_EQ(guard_.Look(Frame(kHeaders, kEndHeaders, stream, "x") +
                              Frame(kData, 0, stream, std::string(5, '\0')) +
                              Frame(kData, 0, stream, std::string(50, 'x')) +
                              Frame(kData, kEndStream, stream, ""),
                          now_),
              nullptr)
        << stream;
  }
  // Beyond that the rate is as it was.
  EXPECT_EQ(CountUntilRefused(Frame(kData, 0, 39'999, "x")), 11'000);
}

TEST_F(FrameGuardTest, RequestsWithoutABodyAllowNoSmallData) {
  for (uint32_t stream = 1; stream < 40'000; stream += 2) {
    ASSERT_EQ(guard_.Look(Frame(kHeaders, kEndHeaders | kEndStream, stream, "x"), now_), nullptr);
  }
  EXPECT_EQ(CountUntilRefused(Frame(kData, 0, 39'999, "x")), 11'000);
}

TEST_F(FrameGuardTest, LargeDataIsNotCounted) {
  EXPECT_EQ(CountUntilRefused(Frame(kData, 0, 1, std::string(256, 'x'))), 100'000);
}

TEST_F(FrameGuardTest, ARequestEndsOnce) {
  for (uint32_t stream = 1; stream < 40'000; stream += 4) {
    ASSERT_EQ(guard_.Look(Frame(kHeaders, kEndHeaders, stream, "x") +
                              Frame(kData, kEndStream, stream, std::string(300, 'x')) +
                              Frame(kHeaders, kEndHeaders, stream + 2, "x") +
                              Frame(kHeaders, kEndHeaders | kEndStream, stream + 2, "trailers"),
                          now_),
              nullptr)
        << stream;
  }
  EXPECT_EQ(CountUntilRefused(Frame(kData, kEndStream, 1, "")), 110);
  EXPECT_THAT(reason_, StrEq("requests end that have not begun"));
}

TEST_F(FrameGuardTest, ARequestThatIsOverAllowsNoEnd) {
  for (uint32_t stream = 1; stream < 40'000; stream += 2) {
    ASSERT_EQ(guard_.Look(Frame(kHeaders, kEndHeaders | kEndStream, stream, "x"), now_), nullptr);
  }
  EXPECT_EQ(CountUntilRefused(Frame(kHeaders, kEndHeaders | kEndStream, 1, "x")), 110);
}

TEST_F(FrameGuardTest, PiecesOfAnySizeAreTheSame) {
  const std::string flood = Frame(kHeaders, 0, 1, "abc") + Frame(kContinuation, 0, 1, "de") +
                            Frame(kContinuation, kEndHeaders, 1, "f") +
                            Frame(kData, kEndStream, 1, std::string(3000, 'x')) +
                            Frame(kPing, 0, 0, std::string(8, 'x'));
  for (size_t size = 1; size < 40; ++size) {
    FrameGuard guard;
    std::string_view rest(flood);
    ASSERT_EQ(guard.Look(Preface(), now_), nullptr);
    while (!rest.empty()) {
      ASSERT_EQ(guard.Look(rest.substr(0, size), now_), nullptr);
      rest.remove_prefix(std::min(size, rest.size()));
    }
    ASSERT_FALSE(guard.in_header_block());
    // It stands at the beginning of a frame.
    ASSERT_NE(guard.Look(Frame(kContinuation, 0, 1, "x"), now_), nullptr);
  }
}

}  // namespace
}  // namespace lockstep::router
