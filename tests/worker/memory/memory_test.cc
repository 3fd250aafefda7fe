#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "tests/common/status_matchers.h"
#include "worker/memory/arena.h"
#include "worker/memory/page_buffer.h"

namespace lockstep::worker {
namespace {

TEST(PageBufferTest, IsZeroedWritableAndStaysInPlaceWhenMoved) {
  auto made = PageBuffer::Allocate(5'000'001);
  ASSERT_THAT(made, IsOk());
  PageBuffer buffer = *std::move(made);
  ASSERT_EQ(buffer.bytes().size(), 5'000'001u);
  for (const std::byte byte : buffer.bytes()) ASSERT_EQ(byte, std::byte{0});
  buffer.bytes().back() = std::byte{7};
  const std::byte* place = buffer.bytes().data();
  PageBuffer moved;
  moved = std::move(buffer);
  EXPECT_EQ(moved.bytes().data(), place);
  EXPECT_EQ(moved.bytes().back(), std::byte{7});
}

TEST(PageBufferTest, NamesTheSizeThatItCannotMap) {
  EXPECT_THAT(PageBuffer::Allocate(size_t{1} << 62),
              HasError(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("4611686018427387904 bytes")));
  const auto empty = PageBuffer::Allocate(0);
  ASSERT_THAT(empty, IsOk());
  EXPECT_TRUE(empty->bytes().empty());
}

TEST(ArenaTest, MeasuresThenHandsOutAlignedPieces) {
  Arena arena;
  EXPECT_EQ(arena.Take<uint16_t>(3), nullptr);
  EXPECT_EQ(arena.Take<double>(100), nullptr);
  ASSERT_THAT(arena.Commit(), IsOk());
  uint16_t* first = arena.Take<uint16_t>(3);
  double* second = arena.Take<double>(100);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<char*>(second) - reinterpret_cast<char*>(first), 256);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(second[i], 0.0);
}

TEST(ArenaTest, TakesMemoryOfTheCallers) {
  Arena arena;
  arena.Take<float>(3);
  arena.Take<float>(5);
  EXPECT_EQ(arena.used_bytes(), 512u);
  alignas(256) std::byte memory[512];
  arena.CommitTo(memory);
  EXPECT_EQ(reinterpret_cast<std::byte*>(arena.Take<float>(3)), memory);
  EXPECT_EQ(reinterpret_cast<std::byte*>(arena.Take<float>(5)), memory + 256);
}

TEST(ArenaDeathTest, TakingMoreThanMeasuredIsABrokenInvariant) {
  Arena arena;
  arena.Take<int>(64);
  ASSERT_THAT(arena.Commit(), IsOk());
  arena.Take<int>(64);
  EXPECT_DEATH(arena.Take<int>(1), "measured at 256 bytes was asked for 512");
}

}  // namespace
}  // namespace lockstep::worker
