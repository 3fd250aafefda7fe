#include "router/strands/strand_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/router/strands/function_strand.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::IdleStrand;

constexpr size_t kPerTaker = StrandQueue::kStrandsPerTaker;

// How many takers it asks for.
size_t PushSome(StrandQueue& queue, size_t count) {
  size_t num_asked = 0;
  for (size_t i = 0; i < count; ++i) num_asked += queue.Push(IdleStrand());
  return num_asked;
}

TEST(StrandQueueTest, TheFirstAsksForATakerAndTheOthersJoinIt) {
  StrandQueue queue(4);
  EXPECT_EQ(PushSome(queue, 1), 1u);
  EXPECT_EQ(PushSome(queue, kPerTaker - 1), 0u);
}

TEST(StrandQueueTest, ManyAskForMoreTakersButNoMoreThanThereAre) {
  StrandQueue queue(3);
  EXPECT_EQ(PushSome(queue, kPerTaker), 1u);
  EXPECT_EQ(PushSome(queue, kPerTaker), 1u);
  EXPECT_EQ(PushSome(queue, 10 * kPerTaker), 1u);
}

TEST(StrandQueueTest, ATakerGetsThemInOrderAndAFewAtATime) {
  StrandQueue queue(1);
  std::vector<std::shared_ptr<Strand>> pushed;
  for (size_t i = 0; i < 5; ++i) {
    pushed.push_back(IdleStrand());
    queue.Push(pushed.back());
  }
  std::vector<std::shared_ptr<Strand>> taken = queue.Take(3);
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_FALSE(queue.Leave());
  for (std::shared_ptr<Strand>& strand : queue.Take(3)) taken.push_back(std::move(strand));
  EXPECT_EQ(taken, pushed);
  EXPECT_TRUE(queue.Leave());
  EXPECT_TRUE(queue.Take(3).empty());
}

TEST(StrandQueueTest, UrgentOnesGoFirst) {
  StrandQueue queue(1);
  const auto first = IdleStrand();
  const auto second = IdleStrand();
  const auto urgent = IdleStrand(/*urgent=*/true);
  for (const auto& strand : {first, second, urgent}) queue.Push(strand);
  EXPECT_EQ(queue.Take(2), (std::vector<std::shared_ptr<Strand>>{urgent, first}));
  EXPECT_FALSE(queue.Leave());
  EXPECT_EQ(queue.Take(2), (std::vector<std::shared_ptr<Strand>>{second}));
  EXPECT_TRUE(queue.Leave());
}

TEST(StrandQueueTest, HalfOfWhatIsTakenIsForThoseThatAreNotUrgent) {
  StrandQueue queue(1);
  for (int i = 0; i < 20; ++i) queue.Push(IdleStrand(/*urgent=*/true));
  for (int i = 0; i < 5; ++i) queue.Push(IdleStrand());
  const auto num_urgent = [](const std::vector<std::shared_ptr<Strand>>& strands) {
    return std::ranges::count_if(strands, [](const auto& strand) { return strand->urgent(); });
  };
  EXPECT_EQ(num_urgent(queue.Take(8)), 4);
  EXPECT_EQ(num_urgent(queue.Take(8)), 7) << "one waits that is not";
  EXPECT_EQ(num_urgent(queue.Take(8)), 8);
  EXPECT_EQ(num_urgent(queue.Take(8)), 1);
  EXPECT_TRUE(queue.Leave());
}

TEST(StrandQueueTest, OnlyOnceTheTakerHasLeftIsAnotherAskedFor) {
  StrandQueue queue(1);
  EXPECT_TRUE(queue.idle());
  EXPECT_EQ(PushSome(queue, 1), 1u);
  queue.Take(1);
  EXPECT_FALSE(queue.idle()) << "the taker runs what it took";
  EXPECT_EQ(PushSome(queue, 1), 0u) << "the taker will look again";
  EXPECT_FALSE(queue.Leave());
  queue.Take(1);
  EXPECT_TRUE(queue.Leave());
  EXPECT_TRUE(queue.idle());
  EXPECT_EQ(PushSome(queue, 1), 1u);
}

}  // namespace
}  // namespace lockstep::router
