#include "common/sampling_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"

namespace lockstep {
namespace {

std::string CheckOne(std::string_view name, float value) {
  SamplingNumbers numbers;
  for (const SamplingNumber& number : kSamplingNumbers) {
    if (number.name == name) numbers.*number.real = value;
  }
  return std::string(Message(CheckSamplingNumbers(numbers, "at.")));
}

TEST(SamplingNumbersTest, EveryNumberHasAnEntryOfItsOwn) {
  std::set<std::string_view> names;
  SamplingNumbers numbers;
  for (const SamplingNumber& number : kSamplingNumbers) {
    EXPECT_TRUE(names.insert(number.name).second) << number.name;
    EXPECT_NE(number.real == nullptr, number.whole == nullptr) << number.name;
    if (number.real != nullptr) {
      EXPECT_TRUE(number.holds(numbers.*number.real)) << number.name;
      EXPECT_FALSE(number.holds(std::numeric_limits<float>::quiet_NaN())) << number.name;
      EXPECT_FALSE(number.holds(std::numeric_limits<float>::infinity())) << number.name;
      EXPECT_FALSE(number.holds(-std::numeric_limits<float>::infinity())) << number.name;
      numbers.*number.real = 77;
    } else {
      numbers.*number.whole = 77;
    }
  }
  // No two entries are of one member, and no member is without one.
  EXPECT_EQ(numbers, (SamplingNumbers{77, 77, 77, 77, 77, 77, 77}));
  EXPECT_EQ(sizeof(numbers), 4 * names.size());
}

TEST(SamplingNumbersTest, RangesIncludeTheirBounds) {
  EXPECT_EQ(CheckOne("temperature", 0), "");
  EXPECT_EQ(CheckOne("temperature", 0.001f), "");
  EXPECT_EQ(CheckOne("temperature", 100), "");
  EXPECT_EQ(CheckOne("temperature", 1e-5f),
            "at.temperature: expected 0 or a number in [0.001, 100], got 1e-05");
  EXPECT_EQ(CheckOne("temperature", 101),
            "at.temperature: expected 0 or a number in [0.001, 100], got 101");
  EXPECT_EQ(CheckOne("top_p", 1), "");
  EXPECT_EQ(CheckOne("top_p", 0), "at.top_p: expected a number in (0, 1], got 0");
  EXPECT_EQ(CheckOne("min_p", 0), "");
  EXPECT_EQ(CheckOne("min_p", 1), "");
  EXPECT_EQ(CheckOne("min_p", -0.5f), "at.min_p: expected a number in [0, 1], got -0.5");
  for (const std::string_view penalty : {"presence_penalty", "frequency_penalty"}) {
    EXPECT_EQ(CheckOne(penalty, -2), "");
    EXPECT_EQ(CheckOne(penalty, 2), "");
    EXPECT_EQ(CheckOne(penalty, std::nextafter(2.0f, 3.0f)),
              fmt::format("at.{}: expected a number in [-2, 2], got 2.0000002", penalty));
  }
  EXPECT_EQ(CheckOne("repetition_penalty", 10), "");
  EXPECT_EQ(CheckOne("repetition_penalty", 0),
            "at.repetition_penalty: expected a number in (0, 10], got 0");
}

}  // namespace
}  // namespace lockstep
