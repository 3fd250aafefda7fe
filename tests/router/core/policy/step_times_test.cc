#include "router/core/policy/step_times.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace lockstep::router {
namespace {

constexpr absl::Duration kMillisecond = absl::Milliseconds(1);

StepTimes Measured(std::initializer_list<std::pair<uint32_t, double>> milliseconds) {
  StepTimes times;
  for (const auto& [num_tokens, time] : milliseconds)
    times.Observe(num_tokens, time * kMillisecond);
  return times;
}

TEST(StepTimesTest, NothingIsKnownAtFirst) {
  StepTimes times;
  EXPECT_TRUE(times.empty());
  times.Observe(3, absl::ZeroDuration());
  times.Observe(3, -kMillisecond);
  times.Observe(0, kMillisecond);
  EXPECT_TRUE(times.empty()) << "not measured";
  EXPECT_FALSE(times.WasMeasuredLately(3));
}

TEST(StepTimesTest, IsALineThroughItsMeasurements) {
  const StepTimes times = Measured({{1, 4}, {3, 8}, {7, 10}});
  EXPECT_DOUBLE_EQ(times.Seconds(1), 0.004);
  EXPECT_DOUBLE_EQ(times.Seconds(2), 0.006);
  EXPECT_DOUBLE_EQ(times.Seconds(3), 0.008);
  EXPECT_DOUBLE_EQ(times.Seconds(5), 0.009);
  EXPECT_DOUBLE_EQ(times.Seconds(13), 0.016) << "as steep as from the first to the last";
  EXPECT_DOUBLE_EQ(times.Seconds(0.5), 0.0035) << "likewise";
  EXPECT_DOUBLE_EQ(times.max_tokens(), 14);
}

TEST(StepTimesTest, OneMeasurementIsATightGuessOfMore) {
  const StepTimes times = Measured({{4, 8}});
  EXPECT_DOUBLE_EQ(times.Seconds(4), 0.008);
  EXPECT_DOUBLE_EQ(times.Seconds(8), 0.010);
  EXPECT_DOUBLE_EQ(times.Seconds(3), 0.0075);
  EXPECT_DOUBLE_EQ(times.max_tokens(), 8);
}

TEST(StepTimesTest, LargeNumbersShareRanges) {
  StepTimes times = Measured({{31, 2}, {64, 8}, {66, 9}, {1000, 20}});
  EXPECT_DOUBLE_EQ(times.Seconds(65), 0.0085) << "one range, with the means of both";
  EXPECT_TRUE(times.WasMeasuredLately(31));
  EXPECT_FALSE(times.WasMeasuredLately(32));
  EXPECT_TRUE(times.WasMeasuredLately(67));
  EXPECT_FALSE(times.WasMeasuredLately(68));
  EXPECT_TRUE(times.WasMeasuredLately(1023));
  EXPECT_FALSE(times.WasMeasuredLately(1024));
  EXPECT_FALSE(times.WasMeasuredLately(1u << 30));
}

TEST(StepTimesTest, WhereMoreTokensTookLessTimeBothAreEqual) {
  const StepTimes times = Measured({{1, 9}, {2, 5}, {4, 10}});
  EXPECT_DOUBLE_EQ(times.Seconds(1), 0.007);
  EXPECT_DOUBLE_EQ(times.Seconds(1.5), 0.007);
  EXPECT_DOUBLE_EQ(times.Seconds(4), 0.010);
}

TEST(StepTimesTest, FollowsWhatChanges) {
  StepTimes times = Measured({{2, 5}});
  for (int i = 0; i < 60; ++i) times.Observe(2, 9 * kMillisecond);
  EXPECT_NEAR(times.Seconds(2), 0.009, 1e-5);
}

TEST(StepTimesTest, OneSlowStepMovesLittle) {
  StepTimes times;
  for (int i = 0; i < 20; ++i) times.Observe(2, 4 * kMillisecond);
  times.Observe(2, absl::Seconds(10));
  EXPECT_LT(times.Seconds(2), 0.0046);
}

TEST(StepTimesTest, OldMeasurementsAreForgotten) {
  StepTimes times = Measured({{1, 4}, {5, 6}});
  for (int i = 0; i < 300; ++i) times.Observe(5, 6 * kMillisecond);
  EXPECT_FALSE(times.WasMeasuredLately(1));
  EXPECT_DOUBLE_EQ(times.Seconds(1), 0.004);
  for (int i = 0; i < 5000; ++i) times.Observe(5, 6 * kMillisecond);
  EXPECT_DOUBLE_EQ(times.Seconds(1), 0.006 * (1 - 0.25 * 4 / 5)) << "a guess";
  times.Observe(1, 5 * kMillisecond);
  EXPECT_DOUBLE_EQ(times.Seconds(1), 0.005) << "the old mean counts no more";
}

TEST(StepTimesTest, EstimatesReachNoFurtherThanWhatIsNotForgotten) {
  StepTimes times;
  EXPECT_EQ(times.max_tokens(), 0);
  times.Observe(40, 9 * kMillisecond);
  for (int i = 0; i < 4096; ++i) times.Observe(5, 6 * kMillisecond);
  EXPECT_DOUBLE_EQ(times.max_tokens(), 80);
  times.Observe(5, 6 * kMillisecond);
  EXPECT_DOUBLE_EQ(times.max_tokens(), 10);
}

TEST(StepTimesTest, NeverFalls) {
  std::mt19937_64 random(11);
  for (int run = 0; run < 50; ++run) {
    StepTimes times;
    for (int i = 0; i < 100; ++i) {
      times.Observe(static_cast<uint32_t>(1 + random() % (run < 25 ? 12 : 600)),
                    absl::Microseconds(static_cast<int64_t>(1 + random() % 10'000)));
      double last = 0;
      for (double tokens = 0.5; tokens < 700; tokens *= 1.1) {
        ASSERT_GE(times.Seconds(tokens), last);
        last = times.Seconds(tokens);
      }
      ASSERT_GT(last, 0);
    }
  }
}

}  // namespace
}  // namespace lockstep::router
