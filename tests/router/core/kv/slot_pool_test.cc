#include "router/core/kv/slot_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SlotPoolTest, GivesEverySlotOnce) {
  SlotPool pool(3);
  EXPECT_EQ(pool.Take(), 0u);
  EXPECT_EQ(pool.Take(), 1u);
  EXPECT_EQ(pool.Take(), 2u);
  EXPECT_EQ(pool.num_free(), 0u);
  EXPECT_THAT(pool.TakeReleased(), IsEmpty());
}

TEST(SlotPoolTest, AReleasedSlotIsReportedOnceAndFreeAtOnce) {
  SlotPool pool(3);
  pool.Take();
  pool.Take();
  pool.Release(0);
  EXPECT_FALSE(pool.IsTaken(0));
  EXPECT_EQ(pool.Take(), 0u);
  pool.Release(1);
  EXPECT_THAT(pool.TakeReleased(), ElementsAre(0, 1));
  EXPECT_THAT(pool.TakeReleased(), IsEmpty());
}

TEST(SlotPoolTest, AfterAResyncNothingIsReported) {
  SlotPool pool(2);
  pool.Release(pool.Take());
  pool.ForgetReleased();
  EXPECT_THAT(pool.TakeReleased(), IsEmpty());
  EXPECT_EQ(pool.num_free(), 2u);
}

TEST(SlotPoolDeathTest, MisuseIsNoticed) {
  SlotPool pool(1);
  EXPECT_DEATH(pool.Release(0), "slot 0 is not taken");
  pool.Take();
  EXPECT_DEATH(pool.Take(), "all 1 slots are taken");
}

}  // namespace
}  // namespace lockstep::router
