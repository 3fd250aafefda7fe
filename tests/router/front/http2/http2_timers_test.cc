#include "router/front/http2/http2_timers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace lockstep::router {
namespace {

using std::chrono::seconds;

// A connection that has no request yet.
class Http2TimersTest : public ::testing::Test {
 protected:
  Http2Timers::Time At(int second) const { return began_ + seconds(second); }

  const Http2Timers::Time began_{std::chrono::hours(1)};
  const ConnectionLimits limits_{.max_body_bytes = 0,
                                 .header_timeout = absl::Seconds(100),
                                 .body_timeout = absl::Seconds(100),
                                 .idle_timeout = absl::Seconds(200),
                                 .write_timeout = absl::Seconds(20),
                                 .keepalive_time = absl::Seconds(30),
                                 .keepalive_timeout = absl::Seconds(10)};
  const Http2Session session_{{}, [](const StreamRequest&, Http2Session::StreamId) {
                                return std::shared_ptr<StreamHandler>();
                              }};
  Http2Timers timers_{limits_, session_, began_};
};

TEST_F(Http2TimersTest, ASilentClientIsPingedAndThenClosed) {
  EXPECT_EQ(timers_.NextDue(At(0)), At(30));
  EXPECT_FALSE(timers_.TakePing(At(29)));
  EXPECT_TRUE(timers_.TakePing(At(30)));
  EXPECT_FALSE(timers_.TakePing(At(31))) << "one is under way";
  EXPECT_EQ(timers_.NextDue(At(31)), At(40));
  EXPECT_FALSE(timers_.IsOverdue(0, At(39)));
  EXPECT_TRUE(timers_.IsOverdue(0, At(40)));
}

TEST_F(Http2TimersTest, AnyBytesAnswerAPing) {
  ASSERT_TRUE(timers_.TakePing(At(30)));
  timers_.OnReceived(At(35));
  EXPECT_FALSE(timers_.IsOverdue(0, At(40)));
  EXPECT_EQ(timers_.NextDue(At(40)), At(65));
}

TEST_F(Http2TimersTest, AClientWithoutARequestHasTheTimeOfAHeader) {
  EXPECT_FALSE(timers_.IsIdleForTooLong(At(99)));
  EXPECT_TRUE(timers_.IsIdleForTooLong(At(100)));
}

TEST_F(Http2TimersTest, AClientThatReadsALittleIsNotClosed) {
  timers_.OnWriteWaits(1000, At(0));
  EXPECT_EQ(timers_.NextDue(At(0)), At(20));
  EXPECT_FALSE(timers_.TakePing(At(19))) << "the write's own limit counts";
  EXPECT_FALSE(timers_.IsOverdue(999, At(20)));
  EXPECT_EQ(timers_.NextDue(At(20)), At(40));
  EXPECT_TRUE(timers_.IsOverdue(999, At(40)));
  timers_.OnProgress(At(41));
  EXPECT_FALSE(timers_.IsOverdue(999, At(60)));
  timers_.OnWriteDone();
  EXPECT_FALSE(timers_.IsOverdue(999, At(70)));
  EXPECT_TRUE(timers_.TakePing(At(70)));
}

}  // namespace
}  // namespace lockstep::router
