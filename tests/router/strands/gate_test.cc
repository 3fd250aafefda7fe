#include "router/strands/gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lockstep {
namespace {

TEST(GateTest, AnOpenGateLetsPassAndRemembersNothing) {
  Gate gate;
  EXPECT_TRUE(gate.is_open());
  EXPECT_TRUE(gate.PassOrWish());
  EXPECT_FALSE(gate.Open());
}

TEST(GateTest, WhoOpensLearnsOfWishesOnce) {
  Gate gate(Gate::State::kClosed);
  EXPECT_FALSE(gate.is_open());
  EXPECT_FALSE(gate.PassOrWish());
  EXPECT_FALSE(gate.PassOrWish());
  EXPECT_TRUE(gate.Open());
  EXPECT_TRUE(gate.PassOrWish());
  gate.Close();
  EXPECT_FALSE(gate.Open()) << "a wish of an earlier time";
}

// One thread brings work and works if it can; the other closes the gate and opens it. All work is
// done in the end, by whoever found the gate open or learned of the wish.
TEST(GateTest, NoWishIsLostBetweenThreads) {
  constexpr int kNumItems = 20'000;
  Gate gate(Gate::State::kClosed);
  std::atomic<int> num_brought = 0;
  std::atomic<bool> done = false;
  int num_seen_by_opener = 0;
  std::thread opener([&] {
    while (!done.load()) {
      if (gate.Open()) num_seen_by_opener = num_brought.load();
      gate.Close();
    }
  });
  bool last_passed = false;
  for (int i = 0; i < kNumItems; ++i) {
    num_brought.fetch_add(1);
    last_passed = gate.PassOrWish();
  }
  done.store(true);
  opener.join();
  const bool wish_left = gate.Open();
  EXPECT_TRUE(last_passed || wish_left || num_seen_by_opener == kNumItems);
}

}  // namespace
}  // namespace lockstep
