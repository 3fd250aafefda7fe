#include "common/runtime/process_metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <map>
#include <string>

namespace lockstep {
namespace {

std::map<std::string, double> Values() {
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : CollectProcessMetrics()) {
    EXPECT_EQ(family.metric.size(), 1u) << family.name;
    const bool is_counter = family.type == prometheus::MetricType::Counter;
    EXPECT_EQ(is_counter, family.name.ends_with("_total")) << family.name;
    values[family.name] =
        is_counter ? family.metric[0].counter.value : family.metric[0].gauge.value;
  }
  return values;
}

TEST(ProcessMetricsTest, HasEachOfThem) {
  const std::map<std::string, double> values = Values();
  EXPECT_EQ(values.size(), 6u);
  EXPECT_GE(values.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(values.at("process_resident_memory_bytes"), 1 << 18);
  EXPECT_GE(values.at("process_virtual_memory_bytes"), values.at("process_resident_memory_bytes"));
  EXPECT_GT(values.at("process_max_fds"), values.at("process_open_fds"));
}

TEST(ProcessMetricsTest, TheStartIsInThePast) {
  const double start = Values().at("process_start_time_seconds");
  const auto now = static_cast<double>(std::time(nullptr));
  // The system's own start is known to the second.
  EXPECT_LE(start, now + 2);
  EXPECT_GT(start, now - 24 * 3600);
}

TEST(ProcessMetricsTest, CountsDescriptors) {
  const double before = Values().at("process_open_fds");
  const int descriptor = ::dup(STDERR_FILENO);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(Values().at("process_open_fds"), before + 1);
  ::close(descriptor);
  EXPECT_EQ(Values().at("process_open_fds"), before);
}

}  // namespace
}  // namespace lockstep
