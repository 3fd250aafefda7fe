#include "router/front/connection/io_threads.h"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <thread>

#include "router/strands/strand_pool.h"
#include "tests/router/strands/function_strand.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::FunctionStrand;

class IoThreadsTest : public ::testing::Test {
 protected:
  // Where a strand that is scheduled now runs.
  static std::thread::id RunOne(StrandRunner& runner) {
    std::thread::id thread;
    std::latch done(1);
    runner.Schedule(std::make_shared<FunctionStrand>([&] {
      thread = std::this_thread::get_id();
      done.count_down();
    }));
    done.wait();
    return thread;
  }

  StrandPool fallback_{"fallback", 1};
  IoThreads threads_{2, fallback_};
};

TEST_F(IoThreadsTest, AConnectionGoesToTheThreadWithTheFewest) {
  IoThreads::Thread& first = threads_.Next();
  const std::shared_ptr<void> one = first.Count(nullptr);
  IoThreads::Thread& second = threads_.Next();
  EXPECT_NE(&first, &second);
  std::shared_ptr<void> two = second.Count(nullptr);
  const std::shared_ptr<void> three = threads_.Next().Count(nullptr);
  two.reset();
  EXPECT_EQ(&threads_.Next(), &second);
  const std::shared_ptr<void> four = threads_.Next().Count(nullptr);
  EXPECT_EQ(&threads_.Of(first.io().get_executor()), &first);
  EXPECT_EQ(&threads_.Of(second.io().get_executor()), &second);
}

TEST_F(IoThreadsTest, APlaceKeepsTheOneItWasMadeOf) {
  const auto inner = std::make_shared<int>(0);
  std::shared_ptr<void> place = threads_.first().Count(inner);
  EXPECT_EQ(inner.use_count(), 2);
  place.reset();
  EXPECT_EQ(inner.use_count(), 1);
}

TEST_F(IoThreadsTest, StrandsOfAConnectionRunOnItsThreadAndElsewhereAfterTheEnd) {
  IoThreads::Thread& first = threads_.Next();
  const std::shared_ptr<void> place = first.Count(nullptr);
  IoThreads::Thread& second = threads_.Next();
  threads_.Run();
  const std::thread::id of_first = RunOne(*first.strands());
  const std::thread::id of_second = RunOne(*second.strands());
  EXPECT_NE(of_first, of_second);
  EXPECT_EQ(RunOne(*first.strands()), of_first);
  EXPECT_EQ(RunOne(*second.strands()), of_second);
  threads_.Stop();
  const std::thread::id afterwards = RunOne(*first.strands());
  EXPECT_EQ(RunOne(fallback_), afterwards);
}

}  // namespace
}  // namespace lockstep::router
