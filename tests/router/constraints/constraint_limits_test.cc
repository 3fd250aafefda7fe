#include "router/constraints/constraint_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status Check(ConstraintKind kind, std::string text) {
  return CheckConstraintLimits({.kind = kind, .text = std::move(text)}, "sampling.x");
}
absl::Status CheckSchema(std::string text) {
  return Check(ConstraintKind::kJsonSchema, std::move(text));
}

std::string Nested(size_t depth) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += R"({"not":)";
  return text + "true" + std::string(depth, '}');
}

// `count` values of an array, as "v0", "v1".
std::string Values(size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "\"v" : ",\"v") + std::to_string(i) + '"';
  return text + "]";
}

TEST(ConstraintLimitsTest, OrdinaryConstraintsPass) {
  EXPECT_THAT(CheckSchema(R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}})"),
              IsOk());
  EXPECT_THAT(CheckSchema("true"), IsOk());
  EXPECT_THAT(Check(ConstraintKind::kJsonObject, ""), IsOk());
  EXPECT_THAT(Check(ConstraintKind::kRegex, "[a-z]+\xC3\xA9"), IsOk());
  EXPECT_THAT(Check(ConstraintKind::kChoice, R"(["a", ""])"), IsOk());
  EXPECT_THAT(Check(ConstraintKind::kGrammar, "start: \"a\""), IsOk());
}

TEST(ConstraintLimitsTest, EveryTextIsBoundedUtf8WithoutNul) {
  for (const ConstraintKind kind : {ConstraintKind::kJsonSchema, ConstraintKind::kRegex,
                                    ConstraintKind::kChoice, ConstraintKind::kGrammar}) {
    EXPECT_THAT(Check(kind, std::string(kMaxConstraintBytes + 1, ' ')),
                HasError(kInvalid, "sampling.x: expected at most 262144 bytes, got 262145"));
    EXPECT_THAT(Check(kind, "ab\xFF"),
                HasError(kInvalid, "sampling.x: is not valid UTF-8 at byte 2"));
    EXPECT_THAT(Check(kind, std::string("a\0b", 3)),
                HasError(kInvalid, "sampling.x: expected text without NUL, got one at byte 1"));
  }
  EXPECT_THAT(Check(ConstraintKind::kGrammar, std::string(kMaxConstraintBytes, 'a')), IsOk());
}

TEST(ConstraintLimitsTest, RegularExpressionsAreShort) {
  EXPECT_THAT(Check(ConstraintKind::kRegex, std::string(kMaxRegexBytes, 'a')), IsOk());
  EXPECT_THAT(Check(ConstraintKind::kRegex, std::string(kMaxRegexBytes + 1, 'a')),
              HasError(kInvalid, "sampling.x: expected at most 4096 bytes, got 4097"));
  const std::string longer(kMaxRegexBytes + 1, 'a');
  EXPECT_THAT(CheckSchema(R"({"properties": {"a": {"pattern": ")" + longer + R"("}}})"),
              HasError(kInvalid, StartsWith("sampling.x: at /properties/a/pattern: expected a "
                                            "regular expression of at most 4096 bytes")));
  EXPECT_THAT(CheckSchema(R"({"patternProperties": {")" + longer + R"(": true}})"),
              HasError(kInvalid, AllOf(StartsWith("sampling.x: at /patternProperties/aaa"),
                                       HasSubstr("...: expected a regular expression"))));
}

TEST(ConstraintLimitsTest, SchemasAreBounded) {
  EXPECT_THAT(CheckSchema(Nested(kMaxSchemaDepth)), IsOk());
  EXPECT_THAT(CheckSchema(Nested(kMaxSchemaDepth + 1)),
              HasError(kInvalid, AllOf(StartsWith("sampling.x: at /not/not/not"),
                                       HasSubstr("expected at most 64 nested levels"))));
  EXPECT_THAT(CheckSchema(Nested(10'000)), HasError(kInvalid, HasSubstr("sampling.x")));
  EXPECT_THAT(CheckSchema(R"({"enum": )" + Values(kMaxChoices) + "}"), IsOk());
  EXPECT_THAT(CheckSchema(R"({"properties": {"a/b~": {"enum": )" + Values(kMaxChoices + 1) + "}}}"),
              HasError(kInvalid,
                       "sampling.x: at /properties/a~1b~0/enum: expected at most 10000 "
                       "values, got 10001"));
  std::string refs = R"({"anyOf": [)";
  for (size_t i = 0; i <= kMaxSchemaRefs; ++i) {
    refs += (i == 0 ? "" : ",") + std::string(R"({"$ref": "#"})");
  }
  EXPECT_THAT(CheckSchema(refs + "]}"),
              HasError(kInvalid,
                       "sampling.x: at /anyOf/256/$ref: expected at most 256 $refs in "
                       "the schema"));
  EXPECT_THAT(CheckSchema(R"({"const": "a\u0000b"})"),
              HasError(kInvalid, "sampling.x: at /const: expected text without NUL"));
  EXPECT_THAT(CheckSchema(R"({"a\u0000": 1})"),
              HasError(kInvalid, "sampling.x: at the root: expected text without NUL"));
}

TEST(ConstraintLimitsTest, SchemasAndChoicesAreJson) {
  EXPECT_THAT(CheckSchema("{"), HasError(kInvalid, HasSubstr("sampling.x")));
  EXPECT_THAT(CheckSchema("{}{}"), HasError(kInvalid, HasSubstr("sampling.x")));
  EXPECT_THAT(CheckSchema("[1]"),
              HasError(kInvalid, "sampling.x: expected an object, true or false, got [1]"));
  EXPECT_THAT(CheckSchema(R"({"a": 1, "a": 2})"), HasError(kInvalid, HasSubstr("sampling.x")));
  EXPECT_THAT(Check(ConstraintKind::kChoice, "[]"),
              HasError(kInvalid, "sampling.x: expected 1 to 10000 texts, got 0"));
  EXPECT_THAT(Check(ConstraintKind::kChoice, Values(kMaxChoices + 1)),
              HasError(kInvalid, "sampling.x: expected 1 to 10000 texts, got 10001"));
}

}  // namespace
}  // namespace lockstep::router
