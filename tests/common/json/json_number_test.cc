#include "common/json/json_number.h"

#include <gtest/gtest.h>

#include <string_view>

namespace lockstep {
namespace {

TEST(JsonNumberTest, FindsANumberAsItIsWritten) {
  constexpr std::string_view kText =
      R"({"a": 1, "seed": 18446744073709551617, "ids": [3, [4], 99999999999999999999, {}],
          "deep": {"seed": -9223372036854775809, "a": [{"b": 1e400}, {"b": -0.50}]}, "s": "1"})";
  const struct {
    std::string_view path;
    std::string_view number;
  } cases[] = {
      {"seed", "18446744073709551617"},
      {"deep.seed", "-9223372036854775809"},
      {"ids[2]", "99999999999999999999"},
      {"ids[1][0]", "4"},
      {"a", "1"},
      {"deep.a[1].b", ""},  // the scan ends at the number before it, which is too large
      {"s", ""},
      {"ids[3]", ""},
      {"nothing", ""},
      {"", ""},
  };
  for (const auto& [path, number] : cases) EXPECT_EQ(JsonNumberAt(kText, path), number) << path;
  EXPECT_EQ(JsonNumberAt(R"([{"b": 0.5}, {"b": -0.50}])", "[1].b"), "-0.50");
  EXPECT_EQ(JsonNumberAt("12345678901234567890123", ""), "12345678901234567890123");
}

}  // namespace
}  // namespace lockstep
