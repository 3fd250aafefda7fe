#include "common/runtime/bounded_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(BoundedQueueTest, IsFirstInFirstOut) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(queue.Pop(), Optional(1));
  EXPECT_THAT(queue.TryPop(), Optional(2));
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueueTest, RefusesWhatDoesNotFitAndLeavesItUntouched) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(second));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
  ASSERT_TRUE(queue.TryPop().has_value());
  EXPECT_TRUE(queue.TryPush(second));
  EXPECT_EQ(second, nullptr);
}

TEST(BoundedQueueTest, DrainTakesEverythingInOrder) {
  BoundedQueue<int> queue(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.TryPush(i));
  EXPECT_THAT(queue.Drain(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(queue.Drain(), IsEmpty());
  EXPECT_TRUE(queue.TryPush(4));
}

TEST(BoundedQueueTest, CloseRefusesPushesAndKeepsWhatIsQueued) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_FALSE(queue.closed());
  queue.Close();
  EXPECT_TRUE(queue.closed());
  EXPECT_FALSE(queue.TryPush(2));
  EXPECT_THAT(queue.Pop(), Optional(1));
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_EQ(queue.PopFor(absl::Hours(1)), std::nullopt);
}

TEST(BoundedQueueTest, PopForGivesUpAfterItsTime) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.PopFor(absl::Milliseconds(1)), std::nullopt);
  EXPECT_EQ(queue.PopFor(-absl::Seconds(1)), std::nullopt);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_THAT(queue.PopFor(absl::ZeroDuration()), Optional(1));
}

TEST(BoundedQueueTest, APushWakesAWaitingPop) {
  BoundedQueue<int> queue(1);
  std::optional<int> popped;
  std::thread consumer([&] { popped = queue.Pop(); });
  EXPECT_TRUE(queue.TryPush(9));
  consumer.join();
  EXPECT_THAT(popped, Optional(9));
}

TEST(BoundedQueueTest, CloseWakesEveryWaiter) {
  BoundedQueue<int> queue(1);
  std::vector<std::thread> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.emplace_back([&] { EXPECT_EQ(queue.Pop(), std::nullopt); });
    consumers.emplace_back([&] { EXPECT_EQ(queue.PopFor(absl::Hours(1)), std::nullopt); });
  }
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();
}

TEST(BoundedQueueTest, ManyThreadsLoseAndDuplicateNothing) {
  constexpr int kNumProducers = 3;
  constexpr int kNumConsumers = 3;
  constexpr int64_t kItemsPerProducer = 5000;
  BoundedQueue<int64_t> queue(16);
  std::vector<std::thread> producers;
  for (int p = 0; p < kNumProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int64_t i = 0; i < kItemsPerProducer; ++i) {
        while (!queue.TryPush(p * kItemsPerProducer + i)) std::this_thread::yield();
      }
    });
  }
  std::vector<std::vector<int64_t>> taken(kNumConsumers);
  std::vector<std::thread> consumers;
  for (std::vector<int64_t>& mine : taken) {
    consumers.emplace_back([&queue, &mine] {
      while (const std::optional<int64_t> item = queue.Pop()) mine.push_back(*item);
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();

  std::vector<int> num_seen(kNumProducers * kItemsPerProducer);
  for (const std::vector<int64_t>& mine : taken) {
    // One consumer sees the items of one producer in their order.
    std::vector<int64_t> last(kNumProducers, -1);
    for (const int64_t item : mine) {
      ++num_seen[static_cast<size_t>(item)];
      int64_t& previous = last[static_cast<size_t>(item / kItemsPerProducer)];
      EXPECT_LT(previous, item);
      previous = item;
    }
  }
  EXPECT_THAT(num_seen, ::testing::Each(1));
}

}  // namespace
}  // namespace lockstep
