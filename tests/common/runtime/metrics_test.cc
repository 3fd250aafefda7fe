#include "common/runtime/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

TEST(MetricsTest, EveryBucketSetAscendsStrictly) {
  for (const std::vector<double>& buckets :
       {BucketVector(kTimeToFirstTokenBucketsSeconds), BucketVector(kInterTokenBucketsSeconds),
        BucketVector(kRequestBucketsSeconds), BucketVector(kWaitBucketsSeconds),
        BucketVector(kStepBucketsSeconds), BucketVector(kStepTokensBuckets),
        BucketVector(kLengthBuckets), BucketVector(kSamplesBuckets)}) {
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

}  // namespace
}  // namespace lockstep
