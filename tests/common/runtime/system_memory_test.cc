#include "common/runtime/system_memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace lockstep {
namespace {

constexpr char kMeminfo[] =
    "MemTotal:       24576000 kB\nMemFree:          100000 kB\nMemAvailable:   20000000 kB\n";
constexpr uint64_t kAvailable = uint64_t{20'000'000} << 10;

std::optional<uint64_t> Available(const std::string& meminfo, const std::string& max,
                                  const std::string& current, const std::string& stat = "") {
  return AvailableMemoryBytes({.meminfo = meminfo, .max = max, .current = current, .stat = stat});
}

TEST(SystemMemoryTest, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(Available(kMeminfo, "", ""), kAvailable);
  EXPECT_EQ(Available(kMeminfo, "max\n", "5000\n"), kAvailable);
}

TEST(SystemMemoryTest, AContainerHasWhatIsLeftBelowItsLimit) {
  EXPECT_EQ(Available(kMeminfo, "1000000\n", "400000\n"), 600'000u);
  EXPECT_EQ(Available(kMeminfo, "1000000\n", "1000001\n"), 0u);
  EXPECT_EQ(Available(kMeminfo, "99999999999999\n", "0\n"), kAvailable);
  EXPECT_EQ(Available("", "1000000\n", "400000\n"), 600'000u);
}

// A model that was downloaded or loaded before fills the container with its file.
TEST(SystemMemoryTest, CachedFilesOfAContainerAreNotTaken) {
  const std::string stat =
      "anon 100000\nfile 890000\nslab_reclaimable 10000\ninactive_file 500000\nactive_file "
      "300000\n";
  EXPECT_EQ(Available(kMeminfo, "1000000\n", "1000000\n", stat), 810'000u);
  EXPECT_EQ(Available(kMeminfo, "1000000\n", "700000\n", stat), 1'000'000u);
}

TEST(SystemMemoryTest, IsUnknownWhereNobodySays) {
  EXPECT_EQ(Available("", "", ""), std::nullopt);
  EXPECT_EQ(Available("MemAvailable:\n", "max", ""), std::nullopt);
}

TEST(SystemMemoryTest, ThisMachineSays) {
  const std::optional<uint64_t> bytes = AvailableMemoryBytes();
  EXPECT_TRUE(bytes.has_value());
}

}  // namespace
}  // namespace lockstep
