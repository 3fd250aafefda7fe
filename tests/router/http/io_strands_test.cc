#include "router/http/io_strands.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <latch>
#include <memory>
#include <thread>

#include "common/named_thread.h"
#include "router/engine/strand_pool.h"
#include "tests/router/engine/function_strand.h"

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

  StrandPool fallback_{"fallback", 1};
  boost::asio::io_context io_;
  const std::shared_ptr<IoStrands> strands_ = std::make_shared<IoStrands>(fallback_);
};

TEST_F(IoStrandsTest, RunsOnTheThreadOfTheSocketsWhileThereIsOne) {
  const std::thread::id before = RunOne();
  strands_->Open(io_, 1);
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
  strands_->Open(io_, 2);
  std::latch done(kNumStrands);
  for (int i = 0; i < kNumStrands; ++i) {
    strands_->Schedule(std::make_shared<FunctionStrand>([&] { done.count_down(); }));
  }
  {
    const NamedThread first("io-0", [this] { io_.run(); });
    const NamedThread second("io-1", [this] { io_.run(); });
  }
  EXPECT_TRUE(done.try_wait());
}

TEST_F(IoStrandsTest, WhatStillWaitsRunsElsewhere) {
  strands_->Open(io_, 1);
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
