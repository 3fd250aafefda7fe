#include "common/runtime/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

TEST(MetricsTest, EveryBucketSetAscendsStrictly) {
  for (const std::vector<double>& buckets :
       {BucketVector(kTimeToFirstTokenBucketsSeconds), BucketVector(kInterTokenBucketsSeconds),
        BucketVector(kRequestBucketsSeconds), BucketVector(kWaitBucketsSeconds),
        BucketVector(kStepBucketsSeconds), BucketVector(kStepTokensBuckets),
        LengthBuckets(131072)}) {
    EXPECT_TRUE(std::is_sorted(buckets.begin(), buckets.end()));
    EXPECT_EQ(std::adjacent_find(buckets.begin(), buckets.end()), buckets.end());
    EXPECT_GT(buckets.front(), 0.0);
  }
}

TEST(MetricsTest, TheFinerSetsExtendTheCommonOnes) {
  EXPECT_EQ(kInterTokenBucketsSeconds.size(), 25u);
  EXPECT_EQ(kInterTokenBucketsSeconds[5], .0075);
  EXPECT_EQ(kInterTokenBucketsSeconds[6], .01);
  EXPECT_EQ(kWaitBucketsSeconds.size(), kRequestBucketsSeconds.size() + 8);
  EXPECT_TRUE(std::equal(kRequestBucketsSeconds.begin(), kRequestBucketsSeconds.end(),
                         kWaitBucketsSeconds.begin() + 8));
}

TEST(MetricsTest, LengthBucketsStopAtTheMaximum) {
  EXPECT_THAT(LengthBuckets(0), ElementsAre(1));
  EXPECT_THAT(LengthBuckets(1), ElementsAre(1));
  EXPECT_THAT(LengthBuckets(10), ElementsAre(1, 2, 5, 10));
  EXPECT_THAT(LengthBuckets(11), ElementsAre(1, 2, 5, 10, 20));
  EXPECT_THAT(LengthBuckets(8192),
              ElementsAre(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000));
}

}  // namespace
}  // namespace lockstep
