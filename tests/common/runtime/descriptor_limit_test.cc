#include "common/runtime/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace lockstep {
namespace {

TEST(DescriptorLimitTest, TheSoftLimitRisesToTheHardOne) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = std::min<rlim_t>(64, limit.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const uint64_t raised = RaiseDescriptorLimit();
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, raised);
  EXPECT_EQ(raised, std::min<rlim_t>(limit.rlim_max, 1 << 20));
  EXPECT_EQ(limit.rlim_max, before.rlim_max);
  EXPECT_EQ(RaiseDescriptorLimit(), raised);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace lockstep
