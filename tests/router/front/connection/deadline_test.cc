#include "router/front/connection/deadline.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>

namespace lockstep::router {
namespace {

using std::chrono::nanoseconds;

// One thread, so that what is ready at once runs in the order of its time.
class DeadlineTest : public ::testing::Test {
 protected:
  // Timers that are ready together with the deadline, before it.
  template <typename Act>
  void ActBefore(boost::asio::steady_timer& timer, Act act) {
    timer.expires_at(std::chrono::steady_clock::now() - std::chrono::seconds(1));
    timer.async_wait([act](boost::system::error_code) { act(); });
  }

  boost::asio::io_context io_;
  int num_passed_ = 0;
  std::shared_ptr<Deadline> deadline_ =
      std::make_shared<Deadline>(io_.get_executor(), [this] { ++num_passed_; });
};

TEST_F(DeadlineTest, PassesOnce) {
  deadline_->Set(nanoseconds(0), deadline_);
  EXPECT_TRUE(deadline_->is_set());
  io_.run();
  EXPECT_EQ(num_passed_, 1);
  EXPECT_FALSE(deadline_->is_set());
}

TEST_F(DeadlineTest, ClearedWhileItsTimerIsOnItsWayItDoesNotPass) {
  boost::asio::steady_timer first(io_);
  ActBefore(first, [this] { deadline_->Clear(); });
  deadline_->Set(nanoseconds(0), deadline_);
  io_.run();
  EXPECT_EQ(num_passed_, 0);
}

TEST_F(DeadlineTest, MovedWhileItsTimerIsOnItsWayItDoesNotPass) {
  boost::asio::steady_timer first(io_);
  ActBefore(first, [this] { deadline_->Set(std::chrono::hours(1), deadline_); });
  deadline_->Set(nanoseconds(0), deadline_);
  io_.poll();
  EXPECT_EQ(num_passed_, 0);
  EXPECT_TRUE(deadline_->is_set());
}

TEST_F(DeadlineTest, MovedForwardItPassesEarlier) {
  deadline_->Set(std::chrono::hours(1), deadline_);
  deadline_->Set(nanoseconds(0), deadline_);
  io_.run_one();
  io_.poll();
  EXPECT_EQ(num_passed_, 1);
}

TEST_F(DeadlineTest, SetAgainAfterItWasClearedItPasses) {
  deadline_->Set(nanoseconds(0), deadline_);
  deadline_->Clear();
  deadline_->Set(nanoseconds(0), deadline_);
  io_.run();
  EXPECT_EQ(num_passed_, 1);
}

TEST_F(DeadlineTest, NothingHappensAfterItsOwnersEnd) {
  boost::asio::steady_timer first(io_);
  ActBefore(first, [this] { deadline_.reset(); });
  deadline_->Set(nanoseconds(0), deadline_);
  io_.run();
  EXPECT_EQ(num_passed_, 0);
}

TEST_F(DeadlineTest, ForeverIsNoDeadline) {
  deadline_->Set(nanoseconds::max(), deadline_);
  EXPECT_FALSE(deadline_->is_set());
}

}  // namespace
}  // namespace lockstep::router
