#include "router/strands/strand_timers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/router/strands/function_strand.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::IdleStrand;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Time = StrandTimers::Time;

constexpr Time kTimersStart{std::chrono::seconds(1000)};
constexpr std::chrono::seconds kSecond(1);

class StrandTimersTest : public ::testing::Test {
 protected:
  StrandTimers timers_;
  const std::shared_ptr<Strand> first_ = IdleStrand();
  const std::shared_ptr<Strand> second_ = IdleStrand();
};

TEST_F(StrandTimersTest, AreEmptyAtFirst) {
  EXPECT_EQ(timers_.next(), Time::max());
  EXPECT_THAT(timers_.TakeDue(Time::max()), IsEmpty());
}

TEST_F(StrandTimersTest, AreDueInOrderOfTime) {
  timers_.Set(first_, kTimersStart + 2 * kSecond);
  timers_.Set(second_, kTimersStart + kSecond);
  EXPECT_EQ(timers_.next(), kTimersStart + kSecond);
  EXPECT_THAT(timers_.TakeDue(kTimersStart), IsEmpty());
  EXPECT_THAT(timers_.TakeDue(kTimersStart + 2 * kSecond), ElementsAre(second_, first_));
  EXPECT_EQ(timers_.next(), Time::max());
}

TEST_F(StrandTimersTest, TwoMayWaitForTheSameTime) {
  timers_.Set(first_, kTimersStart);
  timers_.Set(second_, kTimersStart);
  EXPECT_EQ(timers_.TakeDue(kTimersStart).size(), 2u);
}

TEST_F(StrandTimersTest, ALaterCallCountsInsteadOfTheEarlier) {
  timers_.Set(first_, kTimersStart);
  timers_.Set(first_, kTimersStart + kSecond);
  EXPECT_THAT(timers_.TakeDue(kTimersStart), IsEmpty());
  timers_.Set(first_, kTimersStart + kSecond);
  EXPECT_THAT(timers_.TakeDue(kTimersStart + kSecond), ElementsAre(first_));
  EXPECT_THAT(timers_.TakeDue(kTimersStart + kSecond), IsEmpty());
}

TEST_F(StrandTimersTest, WhatIsTakenBackIsForgotten) {
  timers_.Set(first_, kTimersStart);
  timers_.Set(first_, Time::max());
  timers_.Set(second_, Time::max());
  EXPECT_EQ(timers_.next(), Time::max());
  EXPECT_EQ(first_.use_count(), 1);
  EXPECT_EQ(second_.use_count(), 1);
}

}  // namespace
}  // namespace lockstep::router
