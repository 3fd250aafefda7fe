#include "common/flag.h"

#include <absl/time/time.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::optional<T> Read(const std::string& text, T start = {}) {
  T value = start;
  Flag flag("flag", &value, "a value");
  if (flag.Set(text)) return value;
  EXPECT_EQ(value, start) << "the field stays as it is";
  return std::nullopt;
}

TEST(FlagTest, SwitchesAreReadInSeveralSpellings) {
  for (const char* const text : {"true", "1", "yes", "T", "Y", " true "}) {
    EXPECT_EQ(Read<bool>(text), true) << text;
  }
  for (const char* const text : {"false", "0", "No", "f", "n"}) {
    EXPECT_EQ(Read<bool>(text, true), false) << text;
  }
  EXPECT_EQ(Read<bool>("maybe", true), std::nullopt);
  EXPECT_EQ(Read<bool>("", true), std::nullopt);
}

TEST(FlagTest, NumbersAreReadWhole) {
  EXPECT_EQ(Read<uint32_t>("4294967295"), 4294967295u);
  EXPECT_EQ(Read<uint32_t>(" 7 "), 7u);
  EXPECT_EQ(Read<uint64_t>("0x10"), 16u);
  EXPECT_EQ(Read<double>("1.25"), 1.25);
  EXPECT_EQ(Read<double>("1e3"), 1000);
  for (const char* const text : {"", "-1", "4294967296", "1.5", "7 8", "0x", "0xg", "many"}) {
    EXPECT_EQ(Read<uint32_t>(text, 5), std::nullopt) << text;
  }
  EXPECT_EQ(Read<double>("1,5", 5), std::nullopt);
}

TEST(FlagTest, TimesNeedNoUnit) {
  for (const auto& [text, seconds] : {std::pair("10", 10.0),
                                      {"1.5", 1.5},
                                      {"0", 0.0},
                                      {"10s", 10.0},
                                      {"2m", 120.0},
                                      {"inf", std::numeric_limits<double>::infinity()}}) {
    EXPECT_EQ(Read<absl::Duration>(text), absl::Seconds(seconds)) << text;
  }
  for (const char* const text : {"10 s", "ten", "1.2.3", "", "."}) {
    EXPECT_EQ(Read<absl::Duration>(text, absl::Seconds(5)), std::nullopt) << text;
  }
}

TEST(FlagTest, ListsAreSplitAtCommas) {
  using List = std::vector<std::string>;
  EXPECT_EQ(Read<List>("a,b"), List({"a", "b"}));
  EXPECT_EQ(Read<List>("a,,"), List({"a", "", ""}));
  EXPECT_EQ(Read<List>("", {"a"}), List());
}

TEST(FlagTest, AnOptionalValueMayBeUnset) {
  std::optional<int32_t> number;
  Flag flag("flag", &number, "a number");
  EXPECT_TRUE(flag.Set("-3"));
  EXPECT_EQ(number, -3);
  EXPECT_FALSE(flag.Set("x"));
  EXPECT_EQ(number, -3) << "the field stays as it is";
  EXPECT_TRUE(flag.Set(""));
  EXPECT_EQ(number, std::nullopt);
  std::optional<std::string> text;
  EXPECT_TRUE(Flag("flag", &text, "a text").Set("x"));
  EXPECT_EQ(text, "x");
}

TEST(FlagTest, RepeatedTextsReplaceTheDefault) {
  std::vector<std::string> values = {"default"};
  Flag flag("flag", RepeatedText{&values}, "texts");
  EXPECT_TRUE(flag.Set("a,b"));
  EXPECT_TRUE(flag.Set("c"));
  EXPECT_THAT(values, ElementsAre("a,b", "c"));
  EXPECT_EQ(flag.default_text(), "default");
}

TEST(FlagTest, DefaultsAreThoseOfTheFields) {
  std::string text = "some";
  std::vector<std::string> list = {"a", "b"};
  bool off = false;
  double share = 0.92;
  absl::Duration time = absl::Minutes(90);
  std::optional<uint32_t> unset;
  uint64_t number = uint64_t{1} << 20;
  for (const auto& [field, expected] :
       std::vector<std::pair<FlagField, std::string>>{{&text, "some"},
                                                      {&list, "a,b"},
                                                      {&off, "false"},
                                                      {&share, "0.92"},
                                                      {&time, "1h30m"},
                                                      {&unset, ""},
                                                      {&number, "1048576"}}) {
    EXPECT_EQ(Flag("flag", field, "help").default_text(), expected);
  }
  Flag flag("flag", &number, "help");
  EXPECT_TRUE(flag.Set("5"));
  EXPECT_EQ(flag.ValueText(), "5");
  EXPECT_EQ(flag.default_text(), "1048576") << "although it was set";
}

template <typename T>
std::string Objection(T value, const FlagRange& range) {
  const Flag flag("flag", &value, "help", range);
  Violations violations;
  flag.CheckRange(violations);
  EXPECT_EQ(flag.InRange(), violations.ToStatus().ok());
  return Message(violations.ToStatus());
}

TEST(FlagTest, RangesHaveBounds) {
  EXPECT_EQ(Objection<uint32_t>(1, FromTo(1, 64)), "");
  EXPECT_EQ(Objection<uint32_t>(64, FromTo(1, 64)), "");
  EXPECT_EQ(Objection<uint32_t>(65, FromTo(1, 1 << 20)), "");
  EXPECT_EQ(Objection<uint32_t>(65, FromTo(1, 64)), "--flag: must be in [1, 64], got 65");
  EXPECT_EQ(Objection<uint64_t>(31, ZeroOr(32, 1 << 26)),
            "--flag: must be in [32, 67108864], got 31");
  EXPECT_EQ(Objection<uint64_t>(0, ZeroOr(32, 1 << 26)), "");
  EXPECT_EQ(Objection<double>(1, Above(0, 1)), "");
  EXPECT_EQ(Objection<double>(0, Above(0, 1)), "--flag: must be above 0 and at most 1, got 0");
  EXPECT_NE(Objection(std::numeric_limits<double>::quiet_NaN(), Above(0, 1)), "");
  EXPECT_EQ(Objection(absl::Seconds(1), FromTo(0, 1)), "");
  EXPECT_EQ(Objection(absl::Seconds(2), FromTo(0, 1)), "--flag: must be in [0, 1s], got 2s");
  EXPECT_NE(Objection(absl::InfiniteDuration(), FromTo(0, 1)), "");
  EXPECT_EQ(Objection(absl::InfiniteDuration(), Above(0)), "");
  EXPECT_EQ(Objection(std::optional<uint32_t>(), FromTo(1, 2)), "");
  EXPECT_NE(Objection(std::optional<uint32_t>(3), FromTo(1, 2)), "");
  EXPECT_EQ(Objection<std::string>("b", OneOf({"a", "b", "c"})), "");
  EXPECT_EQ(Objection<std::string>("d", OneOf({"a", "b", "c"})),
            "--flag: must be a, b or c, got \"d\"");
  EXPECT_EQ(Objection<std::string>("d", {}), "");
}

TEST(FlagTest, RangesAreShownAsInTheDocument) {
  uint32_t number = 0;
  absl::Duration time;
  const auto shown = [](FlagField field, FlagRange range) {
    return Flag("flag", field, "help", std::move(range)).RangeText();
  };
  EXPECT_EQ(shown(&number, {}), "");
  EXPECT_EQ(shown(&number, FromTo(0, 65536)), "0 to 65536");
  EXPECT_EQ(shown(&number, FromTo(1, 1 << 20)), "1 to 2^20");
  EXPECT_EQ(shown(&number, ZeroOr(2, 1000)), "0, 2 to 1000");
  EXPECT_EQ(shown(&number, AtLeast(4096)), "from 4096");
  EXPECT_EQ(shown(&time, FromTo(0.001, 3600)), "1ms to 1h");
  EXPECT_EQ(shown(&time, Above(0)), "above 0");
  EXPECT_EQ(shown(&time, Above(0, 3600)), "above 0, to 1h");
  std::string text;
  EXPECT_EQ(shown(&text, OneOf({"text", "json"})), "text, json");
}

}  // namespace
}  // namespace lockstep
