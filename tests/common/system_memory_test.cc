#include "common/system_memory.h"

#include <gtest/gtest.h>

#include <optional>

namespace lockstep {
namespace {

constexpr char kMeminfo[] =
    "MemTotal:       24576000 kB\nMemFree:          100000 kB\nMemAvailable:   20000000 kB\n";
constexpr uint64_t kAvailable = uint64_t{20'000'000} << 10;

TEST(SystemMemoryTest, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(AvailableMemoryBytes(kMeminfo, "", ""), kAvailable);
  EXPECT_EQ(AvailableMemoryBytes(kMeminfo, "max\n", "5000\n"), kAvailable);
}

TEST(SystemMemoryTest, AContainerHasWhatIsLeftBelowItsLimit) {
  EXPECT_EQ(AvailableMemoryBytes(kMeminfo, "1000000\n", "400000\n"), 600'000u);
  EXPECT_EQ(AvailableMemoryBytes(kMeminfo, "1000000\n", "1000001\n"), 0u);
  EXPECT_EQ(AvailableMemoryBytes(kMeminfo, "99999999999999\n", "0\n"), kAvailable);
  EXPECT_EQ(AvailableMemoryBytes("", "1000000\n", "400000\n"), 600'000u);
}

TEST(SystemMemoryTest, IsUnknownWhereNobodySays) {
  EXPECT_EQ(AvailableMemoryBytes("", "", ""), std::nullopt);
  EXPECT_EQ(AvailableMemoryBytes("MemAvailable:\n", "max", ""), std::nullopt);
}

TEST(SystemMemoryTest, ThisMachineHasSome) {
  const std::optional<uint64_t> bytes = AvailableMemoryBytes();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, 0u);
}

}  // namespace
}  // namespace lockstep
