#include "router/front/connection/io_strands.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <latch>
#include <memory>
#include <thread>

#include "common/runtime/named_thread.h"
#include "router/strands/strand_pool.h"
#include "tests/router/strands/function_strand.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::FunctionStrand;

class IoStrandsTest : public ::testing::Test {
 protected:
  // Where a strand that is scheduled now runs.
  std::thread::id RunOne() {
    std::thread::id thread;
    std::latch done(1);
    strands_->Schedule(std::make_shared<FunctionStrand>([&] {
      thread = std::this_thread::get_id();
      done.count_down();
    }));
    done.wait();
    return thread;
  }

  void ScheduleOne() {
    strands_->Schedule(std::make_shared<FunctionStrand>([this] { ++num_run_; }));
  }

  int num_run_ = 0;  // strands of ScheduleOne
  StrandPool fallback_{"fallback", 1};
  boost::asio::io_context io_;
  const std::shared_ptr<IoStrands> strands_ = std::make_shared<IoStrands>(fallback_);
};

TEST_F(IoStrandsTest, RunsOnTheThreadOfTheSocketsWhileThereIsOne) {
  const std::thread::id before = RunOne();
  strands_->Open(io_);
  const auto work = boost::asio::make_work_guard(io_);
  NamedThread thread("io", [this] { io_.run(); });
  const std::thread::id io_thread = thread.get_id();
  EXPECT_NE(before, io_thread);
  EXPECT_EQ(RunOne(), io_thread);
  EXPECT_EQ(RunOne(), io_thread);
  io_.stop();
  thread.join();
  strands_->Close();
  EXPECT_EQ(RunOne(), before);
}

TEST_F(IoStrandsTest, EveryStrandRunsHoweverManyWait) {
  constexpr int kNumStrands = 1000;
  strands_->Open(io_);
  std::latch done(kNumStrands);
  for (int i = 0; i < kNumStrands; ++i) {
    strands_->Schedule(std::make_shared<FunctionStrand>([&] { done.count_down(); }));
  }
  io_.run();
  EXPECT_TRUE(done.try_wait());
}

TEST_F(IoStrandsTest, ManyStrandsWakeTheThreadOnce) {
  strands_->Open(io_);
  {
    const StrandRunner::WakeLater wakes;
    for (int i = 0; i < 40; ++i) {
      ScheduleOne();
      io_.restart();
      EXPECT_EQ(io_.run(), 0u) << "nothing was posted yet";
    }
    EXPECT_EQ(num_run_, 0);
  }
  io_.restart();
  EXPECT_EQ(io_.run(), 1u);
  EXPECT_EQ(num_run_, 40);
}

TEST_F(IoStrandsTest, AThreadIsWokenBeforeTheEndWhenAskedFor) {
  strands_->Open(io_);
  StrandRunner::WakeLater wakes;
  ScheduleOne();
  wakes.Wake();
  io_.run();
  EXPECT_EQ(num_run_, 1);
}

TEST_F(IoStrandsTest, AnInnerWakeWakesForTheOutermostOne) {
  strands_->Open(io_);
  {
    const StrandRunner::WakeLater outer;
    ScheduleOne();
    {
      StrandRunner::WakeLater inner;
      ScheduleOne();
      inner.Wake();
      EXPECT_EQ(io_.run(), 1u);
      EXPECT_EQ(num_run_, 2);
      ScheduleOne();
    }
    io_.restart();
    EXPECT_EQ(io_.run(), 0u) << "the outer one still puts off";
  }
  io_.restart();
  EXPECT_EQ(io_.run(), 1u);
  EXPECT_EQ(num_run_, 3);
}

TEST_F(IoStrandsTest, AWakeThatIsPutOffHoldsUpNobodyElsesStrand) {
  strands_->Open(io_);
  {
    const StrandRunner::WakeLater wakes;
    ScheduleOne();
    NamedThread other("other", [&] { ScheduleOne(); });
    other.join();
    EXPECT_EQ(io_.run(), 1u) << "the other thread puts nothing off";
    EXPECT_EQ(num_run_, 2);
    // From now on it is put off again.
    ScheduleOne();
    io_.restart();
    EXPECT_EQ(io_.run(), 0u);
  }
  io_.restart();
  EXPECT_EQ(io_.run(), 1u);
  EXPECT_EQ(num_run_, 3);
}

TEST_F(IoStrandsTest, OfTwoWhoPutOffTheFirstToEndWakesForBoth) {
  strands_->Open(io_);
  {
    const StrandRunner::WakeLater wakes;
    ScheduleOne();
    NamedThread other("other", [&] {
      const StrandRunner::WakeLater wakes_too;
      ScheduleOne();
      ScheduleOne();
    });
    other.join();
    EXPECT_EQ(io_.run(), 1u);
    EXPECT_EQ(num_run_, 3);
  }
  io_.restart();
  EXPECT_EQ(io_.run(), 0u) << "it was woken already";
}

TEST_F(IoStrandsTest, WhatWaitsForAWakeRunsElsewhereOnceClosed) {
  strands_->Open(io_);
  std::latch done(1);
  {
    const StrandRunner::WakeLater wakes;
    strands_->Schedule(std::make_shared<FunctionStrand>([&] { done.count_down(); }));
    strands_->Close();
    done.wait();
  }
  EXPECT_EQ(io_.run(), 0u);
}

TEST_F(IoStrandsTest, WhatStillWaitsRunsElsewhere) {
  strands_->Open(io_);
  std::latch done(40);
  for (int i = 0; i < 40; ++i) {
    strands_->Schedule(std::make_shared<FunctionStrand>([&] { done.count_down(); }));
  }
  EXPECT_FALSE(done.try_wait()) << "nobody runs the io_context";
  strands_->Close();
  done.wait();
}

}  // namespace
}  // namespace lockstep::router
