#include "router/strands/fair_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace lockstep::router {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kSmall = 1000;

class Work final : public Strand {
 public:
  Work(std::string owner, size_t num_bytes) : owner_(std::move(owner)), num_bytes_(num_bytes) {}
  void RunStrand() override {}
  std::string_view owner() const override { return owner_; }
  size_t num_work_bytes() const override { return num_bytes_; }

 private:
  const std::string owner_;
  const size_t num_bytes_;
};

class FairQueueTest : public ::testing::Test {
 protected:
  using Large = FairQueue::Large;

  void Push(const std::string& owner, size_t num_bytes, int count = 1) {
    for (int i = 0; i < count; ++i) queue_.Push(std::make_shared<Work>(owner, num_bytes));
  }
  // Owner and bytes of the next; "" when there is none.
  // It takes as long as the queue expects.
  std::string Next(Large large = Large::kAll) {
    const FairQueue::Turn turn = queue_.Pop(large);
    if (turn.strand == nullptr) return "";
    const Strand& next = *turn.strand;
    bytes_[std::string(next.owner())] += next.num_work_bytes();
    queue_.Finish(turn, nanoseconds(50) * static_cast<int64_t>(next.num_work_bytes()));
    return std::string(next.owner()) + (FairQueue::IsLarge(next) ? "+" : "");
  }

  FairQueue queue_;
  std::map<std::string, size_t> bytes_;
};

TEST_F(FairQueueTest, OfOneOwnerAndSizeTheFirstComesFirst) {
  std::vector<std::shared_ptr<Strand>> pushed;
  for (int i = 0; i < 1000; ++i) {
    pushed.push_back(std::make_shared<Work>("a", kSmall));
    queue_.Push(pushed.back());
  }
  for (const std::shared_ptr<Strand>& strand : pushed) {
    EXPECT_EQ(queue_.Pop(Large::kAll).strand, strand);
  }
  EXPECT_EQ(queue_.Pop(Large::kAll).strand, nullptr);
}

TEST_F(FairQueueTest, AnOwnersManyDoNotHoldUpAnothersOne) {
  Push("greedy", kLarge, 100);
  EXPECT_EQ(Next(), "greedy+");
  Push("modest", kSmall);
  EXPECT_EQ(Next(), "modest");
  EXPECT_EQ(Next(), "greedy+");
  Push("modest", kSmall);
  EXPECT_EQ(Next(), "modest") << "one whose queue was empty has not lost its place";
}

TEST_F(FairQueueTest, OwnersGetTheSameBytesWhateverTheSizeOfTheirStrands) {
  Push("few", kLarge, 40);
  Push("many", 50'000, 4000);
  Push("more", 10'000, 4000);
  while (bytes_["few"] < 10 * kLarge) Next();
  EXPECT_NEAR(static_cast<double>(bytes_["many"]), 10.0 * kLarge, 1.1 * kLarge);
  EXPECT_NEAR(static_cast<double>(bytes_["more"]), 10.0 * kLarge, 1.1 * kLarge);
}

TEST_F(FairQueueTest, OwnersGetTheSameTimeWhateverTheirBytesCost) {
  Push("slow", kSmall, 400);
  Push("quick", kSmall, 4000);
  int num_slow = 0;
  int num_quick = 0;
  while (num_slow < 100) {
    const FairQueue::Turn turn = queue_.Pop(Large::kAll);
    const bool slow = turn.strand->owner() == "slow";
    ++(slow ? num_slow : num_quick);
    queue_.Finish(turn, milliseconds(slow ? 10 : 1));
  }
  EXPECT_NEAR(num_quick, 1000, 20);
}

TEST_F(FairQueueTest, ATurnThatTookLongCountsOnceItIsOver) {
  Push("greedy", kSmall, 3);
  const FairQueue::Turn first = queue_.Pop(Large::kAll);
  Push("modest", kSmall, 3);
  queue_.Finish(first, milliseconds(1000));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Next(), "modest");
  EXPECT_EQ(Next(), "greedy");
}

TEST_F(FairQueueTest, AnOwnerIsKeptWhileItsLastStrandRuns) {
  Push("slow", kSmall);
  const FairQueue::Turn turn = queue_.Pop(Large::kAll);
  for (int i = 0; i < 1000; ++i) {
    Push("other-" + std::to_string(i), kSmall);
    Next();
  }
  queue_.Finish(turn, milliseconds(1000));
  Push("slow", kSmall);
  Push("modest", kSmall);
  EXPECT_EQ(Next(), "modest");
  EXPECT_EQ(Next(), "slow");
}

TEST_F(FairQueueTest, SmallOnesOfAnOwnerDoNotWaitForItsLargeOnes) {
  Push("", kLarge, 100);
  EXPECT_EQ(Next(), "+");
  Push("", kSmall, 2);
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Next(), "+");
  Push("", kSmall, 3000);
  int num_small = 0;
  while (bytes_[""] < 4 * kLarge) num_small += Next() == "";
  EXPECT_LT(num_small, 3000) << "but they share with them";
}

TEST_F(FairQueueTest, LargeOnesAreLeftWhereTheyAreNotAsked) {
  Push("a", kLarge, 2);
  EXPECT_EQ(Next(Large::kNone), "");
  EXPECT_FALSE(queue_.empty());
  Push("b", kSmall);
  EXPECT_EQ(Next(Large::kNone), "b");
  EXPECT_EQ(Next(Large::kNone), "");
  EXPECT_EQ(Next(), "a+");
  EXPECT_EQ(Next(), "a+");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairQueueTest, AnOwnersSecondLargeOneLeavesThePlaceToOthers) {
  Push("a", kLarge, 3);
  const FairQueue::Turn first = queue_.Pop(Large::kOfNewOwners);
  EXPECT_EQ(first.strand->owner(), "a");
  EXPECT_EQ(Next(Large::kOfNewOwners), "");
  Push("a", kSmall);
  EXPECT_EQ(Next(Large::kOfNewOwners), "a") << "small ones go";
  Push("b", kLarge);
  EXPECT_EQ(Next(Large::kOfNewOwners), "b+");
  EXPECT_EQ(Next(Large::kAll), "a+");
  queue_.Finish(first, nanoseconds(1));
  EXPECT_EQ(Next(Large::kOfNewOwners), "a+");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairQueueTest, RestForgetsWhatOwnersHad) {
  Push("a", kLarge, 3);
  for (int i = 0; i < 3; ++i) Next();
  queue_.Rest();
  Push("a", kSmall, 2);
  Push("b", kSmall, 2);
  std::string order;
  for (int i = 0; i < 4; ++i) order += Next();
  EXPECT_TRUE(order == "abab" || order == "abba" || order == "baab" || order == "baba") << order;
}

TEST_F(FairQueueTest, ManyOwnersComeAndGo) {
  for (int i = 0; i < 10'000; ++i) {
    Push("tenant-" + std::to_string(i), kSmall);
    EXPECT_NE(Next(), "");
  }
  Push("a", kSmall, 2);
  EXPECT_EQ(queue_.TakeAll().size(), 2u);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace lockstep::router
