#include "common/heap.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <fstream>
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

size_t ResidentBytes() {
  size_t size_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> size_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
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
#endif

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
