#include "common/check.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(CheckTest, PassesSilently) {
  int evaluations = 0;
  LOCKSTEP_CHECK(++evaluations == 1, "evaluated {} times", evaluations);
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, AbortsWithFileConditionAndMessage) {
  const int num_blocks = 3;
  EXPECT_DEATH(LOCKSTEP_CHECK(num_blocks == 4, "block {} of {} is lost", 7, num_blocks),
               "check_test.cc:[0-9]+: CHECK failed: num_blocks == 4: block 7 of 3 is lost");
}

}  // namespace
}  // namespace lockstep
