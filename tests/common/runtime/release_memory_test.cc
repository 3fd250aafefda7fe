#include "common/runtime/release_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(ReleaseMemoryTest, NothingIsKept) {
  std::string text(100'000, 'x');
  ReleaseMemory(text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(text.capacity(), std::string().capacity());
}

}  // namespace
}  // namespace lockstep
