#include "common/runtime/heap.h"

#include <absl/time/time.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <latch>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have heaps of their own
// By default a large block is taken from the heap once one as large was freed.
TEST(HeapTest, LargeBlocksAreNeverPartOfTheHeap) {
  ReturnLargeBlocks();
  const size_t num_before = mallinfo2().hblks;
  for (int i = 0; i < 3; ++i) {
    const std::string large(8 << 20, 'x');
    EXPECT_EQ(mallinfo2().hblks, num_before + 1);
  }
  EXPECT_EQ(mallinfo2().hblks, num_before);
}

TEST(HeapTest, WhatAThreadFreedInSmallBlocksIsReturned) {
  ReturnLargeBlocks();
  size_t before = 0, used = 0, after = 0;
  std::thread([&] {
    before = ResidentBytes();
    auto blocks = std::make_unique<std::list<std::array<char, 40>>>(1'000'000);
    used = ResidentBytes();
    blocks.reset();
    ReturnFreedMemory();
    after = ResidentBytes();
  }).join();
  EXPECT_GT(used, before + (size_t{50} << 20));
  EXPECT_LT(after, before + (size_t{8} << 20));
}

TEST(HeapTest, WhatOtherThreadsFreedIsReturned) {
  ReturnLargeBlocks();
  const size_t before = ResidentBytes();
  std::latch freed(1), returned(1);
  std::thread other([&] {
    auto blocks = std::make_unique<std::list<std::array<char, 40>>>(1'000'000);
    // In use, at the end of the thread's heap: this keeps glibc from shrinking the heap by itself.
    const auto last = std::make_unique<std::array<char, 40>>();
    blocks.reset();
    freed.count_down();
    returned.wait();
  });
  freed.wait();
  const size_t kept = ResidentBytes();
  ReturnFreedMemory();
  const size_t after = ResidentBytes();
  returned.count_down();
  other.join();
  EXPECT_GT(kept, before + (size_t{50} << 20));
  EXPECT_LT(after, before + (size_t{8} << 20));
}
#endif

constexpr absl::Duration kMinInterval = FreedMemoryWatch::kMinInterval;
constexpr absl::Duration kMaxInterval = FreedMemoryWatch::kMaxInterval;
constexpr absl::Duration kMoment = absl::Milliseconds(1);

TEST(FreedMemoryWatchTest, MemoryIsReturnedOnceItHasGrown) {
  FreedMemoryWatch watch(/*max_growth_bytes=*/100);
  const Instant start = Instant();
  EXPECT_FALSE(watch.ShouldReturn(200, 0, start));  // what the process starts with
  EXPECT_FALSE(watch.ShouldReturn(299, 0, start));
  EXPECT_TRUE(watch.ShouldReturn(300, 0, start));
  watch.OnReturned(210, 0, start);
  const Instant later = start + kMinInterval;
  EXPECT_FALSE(watch.ShouldReturn(309, 0, later));
  EXPECT_TRUE(watch.ShouldReturn(310, 0, later));
}

TEST(FreedMemoryWatchTest, AReturnIsFollowedByAPause) {
  FreedMemoryWatch watch(100);
  const Instant start = Instant();
  EXPECT_FALSE(watch.ShouldReturn(200, 0, start));
  ASSERT_TRUE(watch.ShouldReturn(900, 0, start));
  watch.OnReturned(200, 0, start);
  EXPECT_FALSE(watch.ShouldReturn(900, 0, start + kMinInterval - kMoment));
  EXPECT_TRUE(watch.ShouldReturn(900, 0, start + kMinInterval));
}

TEST(FreedMemoryWatchTest, WhatIsInUseIsNotExpectedBack) {
  FreedMemoryWatch watch(100);
  const Instant now = Instant();
  EXPECT_FALSE(watch.ShouldReturn(200, 0, now));
  EXPECT_FALSE(watch.ShouldReturn(900, 650, now));
  EXPECT_TRUE(watch.ShouldReturn(900, 550, now));
}

TEST(FreedMemoryWatchTest, WhatIsCountedAndNotResidentMakesNothingSeemFree) {
  FreedMemoryWatch watch(100);
  Instant now = Instant();
  EXPECT_FALSE(watch.ShouldReturn(200, 0, now));
  EXPECT_FALSE(watch.ShouldReturn(200, 2000, now));
  EXPECT_FALSE(watch.ShouldReturn(200, 0, now));
  // Nor does it in a return.
  ASSERT_TRUE(watch.ShouldReturn(300, 0, now));
  watch.OnReturned(210, 2000, now);
  now += kMinInterval;
  EXPECT_FALSE(watch.ShouldReturn(210, 0, now));
  EXPECT_TRUE(watch.ShouldReturn(310, 0, now));
}

TEST(FreedMemoryWatchTest, AfterAReturnInVainTheNextIsTwiceAsFar) {
  FreedMemoryWatch watch(100);
  Instant now = Instant();
  EXPECT_FALSE(watch.ShouldReturn(200, 0, now));
  absl::Duration interval = kMinInterval;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(watch.ShouldReturn(600, 0, now)) << i;
    watch.OnReturned(501, 0, now);  // 99 of 400
    interval = std::min(2 * interval, kMaxInterval);
    EXPECT_FALSE(watch.ShouldReturn(600, 0, now + interval - kMoment)) << i;
    now += interval;
  }
  EXPECT_EQ(interval, kMaxInterval);
  // A return that gives back enough makes the interval short again.
  ASSERT_TRUE(watch.ShouldReturn(600, 0, now));
  watch.OnReturned(500, 0, now);
  EXPECT_FALSE(watch.ShouldReturn(624, 0, now + kMinInterval)) << "a quarter of 500 is missing";
  EXPECT_TRUE(watch.ShouldReturn(625, 0, now + kMinInterval));
}

TEST(HeapTest, WhatIsInUseStaysWhenTheRestIsReturned) {
  std::vector<std::unique_ptr<std::string>> kept;
  for (int i = 0; i < 100'000; ++i) {
    auto text = std::make_unique<std::string>(200, 'x');
    if (i % 100 == 0) kept.push_back(std::move(text));
  }
  ReturnFreedMemory();
  for (const auto& text : kept) ASSERT_EQ(*text, std::string(200, 'x'));
}

}  // namespace
}  // namespace lockstep
