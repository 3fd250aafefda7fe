#include "router/serving/validation/constraint_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using ::testing::HasSubstr;

v1::SamplingParams With(const std::function<void(v1::SamplingParams&)>& set) {
  v1::SamplingParams sampling;
  set(sampling);
  return sampling;
}

TEST(ConstraintFieldTest, EveryKindIsRead) {
  const struct {
    v1::SamplingParams sampling;
    std::string path;
    Constraint constraint;
  } cases[] = {
      {With([](auto& s) { s.set_json_schema("{}"); }),
       "sampling.json_schema",
       {ConstraintKind::kJsonSchema, "{}"}},
      {With([](auto& s) { s.set_json_object(true); }),
       "sampling.json_object",
       {ConstraintKind::kJsonObject, ""}},
      {With([](auto& s) { s.set_regex("a*"); }), "sampling.regex", {ConstraintKind::kRegex, "a*"}},
      {With([](auto& s) { s.set_grammar("start: a"); }),
       "sampling.grammar",
       {ConstraintKind::kGrammar, "start: a"}},
      {With([](auto& s) {
         s.mutable_choice()->add_texts("a\"\n");
         s.mutable_choice()->add_texts("");
       }),
       "sampling.choice",
       {ConstraintKind::kChoice, R"(["a\"\n",""])"}},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(ConstraintPath(each.sampling), each.path);
    EXPECT_THAT(CheckConstraintField(each.sampling, true), IsOk());
    EXPECT_THAT(CheckConstraintField(each.sampling, false),
                HasError(absl::StatusCode::kUnimplemented,
                         each.path + ": this router has no constraint engine"));
    const auto read = ReadConstraint(each.sampling);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, each.constraint);
  }
}

TEST(ConstraintFieldTest, WhatAsksForNothingIsNoConstraint) {
  for (const v1::SamplingParams& sampling :
       {v1::SamplingParams(), With([](auto& s) { s.set_json_object(false); })}) {
    EXPECT_EQ(ConstraintPath(sampling), "");
    EXPECT_THAT(CheckConstraintField(sampling, false), IsOk());
    EXPECT_EQ(*ReadConstraint(sampling), std::nullopt);
    EXPECT_EQ(NumConstraintBytes(sampling), 0u);
  }
}

TEST(ConstraintFieldTest, BadFieldsAreNamed) {
  EXPECT_THAT(CheckConstraintField(With([](auto& s) { s.set_json_schema(""); }), true),
              HasError(kInvalid, "sampling.json_schema: expected at least 1 byte, got none"));
  EXPECT_THAT(CheckConstraintField(With([](auto& s) { s.set_structural_tag("x"); }), true),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("sampling.structural_tag: ")));
  EXPECT_THAT(ReadConstraint(With([](auto& s) {
                s.mutable_choice()->add_texts("a");
                s.mutable_choice()->add_texts("\xFF");
              })),
              HasError(kInvalid, "sampling.choice.texts[1]: is not valid UTF-8 at byte 0"));
}

TEST(ConstraintFieldTest, WorkGrowsWithTheText) {
  EXPECT_EQ(NumConstraintBytes(With([](auto& s) { s.set_regex("abc"); })), 3u);
  EXPECT_EQ(NumConstraintBytes(With([](auto& s) {
              s.mutable_choice()->add_texts("ab");
              s.mutable_choice()->add_texts("c");
            })),
            3u);
}

}  // namespace
}  // namespace lockstep::router
