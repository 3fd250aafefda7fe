#include "router/constraints/constraint_verdicts.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::router {
namespace {

Constraint Regex(const std::string& text) { return {.kind = ConstraintKind::kRegex, .text = text}; }

TEST(ConstraintVerdictsTest, KindAndTextTellConstraintsApart) {
  ConstraintVerdicts verdicts(10, 1000);
  const absl::Status refused = absl::InvalidArgumentError("no");
  EXPECT_FALSE(verdicts.Find(Regex("a")).has_value());
  verdicts.Add(Regex("a"), absl::OkStatus());
  verdicts.Add({.kind = ConstraintKind::kGrammar, .text = "a"}, refused);
  EXPECT_EQ(verdicts.Find(Regex("a")), absl::OkStatus());
  EXPECT_EQ(verdicts.Find({.kind = ConstraintKind::kGrammar, .text = "a"}), refused);
  EXPECT_FALSE(verdicts.Find(Regex("b")).has_value());
  // The latest verdict counts.
  verdicts.Add(Regex("a"), refused);
  EXPECT_EQ(verdicts.Find(Regex("a")), refused);
  EXPECT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts.num_bytes(), 4u);
}

TEST(ConstraintVerdictsTest, TheLeastRecentlyUsedGoFirst) {
  ConstraintVerdicts verdicts(3, 1000);
  for (const char* const text : {"a", "b", "c"}) verdicts.Add(Regex(text), absl::OkStatus());
  EXPECT_TRUE(verdicts.Find(Regex("a")).has_value());
  verdicts.Add(Regex("d"), absl::OkStatus());
  EXPECT_FALSE(verdicts.Find(Regex("b")).has_value());
  EXPECT_TRUE(verdicts.Find(Regex("a")).has_value());
  EXPECT_TRUE(verdicts.Find(Regex("c")).has_value());
}

TEST(ConstraintVerdictsTest, TextsAreBoundedTogether) {
  ConstraintVerdicts verdicts(1000, 100);
  for (int i = 0; i < 50; ++i) {
    verdicts.Add(Regex(std::string(static_cast<size_t>(i), 'x')), absl::OkStatus());
    EXPECT_LE(verdicts.num_bytes(), 100u);
  }
  EXPECT_TRUE(verdicts.Find(Regex(std::string(49, 'x'))).has_value());
  // What is larger than the bound is not kept, and takes nothing along in the end.
  verdicts.Add(Regex(std::string(200, 'x')), absl::OkStatus());
  EXPECT_EQ(verdicts.size(), 0u);
  EXPECT_EQ(verdicts.num_bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::router
