#include "router/calls/grammar/argument_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

OrderedJson Root(const std::string& text) {
  const absl::StatusOr<OrderedJson> root = ParseArgumentSchema(text);
  EXPECT_TRUE(root.ok()) << root.status();
  return root.value_or(OrderedJson::object());
}

TEST(ArgumentSchemaTest, ArgumentsAreAnObjectAndKeepTheirOrder) {
  const std::string options = R"("x-guidance":{"whitespace_flexible":true,)"
                              R"("whitespace_pattern":"[ \\t]{1,2}|\\r?\\n[ \\t]{0,64}",)"
                              R"("coerce_one_of":false,"lenient":false})";
  EXPECT_EQ(*ObjectSchema(Root(R"({"properties": {"z": {}, "a": {}}, "required": ["z"]})")),
            R"({"properties":{"z":{},"a":{}},"required":["z"],"type":"object",)" + options + "}");
  // No parameters: no arguments. The client's own options have no effect.
  EXPECT_EQ(*ObjectSchema(Root("")),
            R"({"additionalProperties":false,"type":"object",)" + options + "}");
  EXPECT_EQ(*ObjectSchema(Root(R"({"x-guidance": {"lenient": true}, "type": ["object", "null"]})")),
            "{" + options + R"(,"type":"object"})");
}

TEST(ArgumentSchemaTest, PropertyNamesThatAllowEveryNameAreDropped) {
  const struct {
    const char* schema;
    const char* left;
  } cases[] = {
      {R"({"propertyNames":{"type":"string"},"additionalProperties":{}})",
       R"({"additionalProperties":{}})"},
      {R"({"properties":{"a":{"anyOf":[{"type":"object","propertyNames":true}]}}})",
       R"({"properties":{"a":{"anyOf":[{"type":"object"}]}}})"},
      {R"({"$defs":{"m":{"propertyNames":{"description":"d","type":["string","null"]}}}})",
       R"({"$defs":{"m":{}}})"},
      {R"({"propertyNames":{"type":"string","$comment":"a","examples":["b"]}})", "{}"},
      // These say something, or are no keywords.
      {R"({"propertyNames":{"maxLength":3}})", nullptr},
      {R"({"propertyNames":{"format":"uuid"}})", nullptr},
      {R"({"propertyNames":{"type":"integer"}})", nullptr},
      {R"({"propertyNames":false})", nullptr},
      {R"({"properties":{"propertyNames":{"type":"string"}}})", nullptr},
      {R"({"properties":{"a":{"const":{"propertyNames":{}}}}})", nullptr},
  };
  for (const auto& [schema, left] : cases) {
    EXPECT_EQ(ParseArgumentSchema(schema)->dump(), left == nullptr ? schema : left);
  }
}

TEST(ArgumentSchemaTest, WhatIsNoSchemaOfAnObjectIsRefused) {
  EXPECT_THAT(ParseArgumentSchema(R"({"type": "string"})"),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("type: expected \"object\"")));
  EXPECT_THAT(ParseArgumentSchema("[]"),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("expected a JSON schema")));
  OrderedJson large = OrderedJson::object();
  for (size_t i = 0; i <= kMaxSchemaMembers; ++i) large["properties"][std::to_string(i)] = true;
  EXPECT_THAT(ParseArgumentSchema(large.dump()),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1000 members")));
}

TEST(ArgumentSchemaTest, PropertiesAreTakenApart) {
  const auto properties = PropertiesOf(
      Root(R"({"type": "object", "title": "T", "properties": {"b": {"type": "string"}, "a": true,
               "never": false}, "required": ["a"], "additionalProperties": {"type": "string"}})"));
  ASSERT_TRUE(properties.ok()) << properties.status();
  ASSERT_EQ(properties->size(), 2u);
  EXPECT_EQ((*properties)[0].name, "b");
  EXPECT_FALSE((*properties)[0].required);
  EXPECT_EQ((*properties)[1].name, "a");
  EXPECT_TRUE((*properties)[1].required);
  const std::pair<const char*, const char*> bad[] = {
      {R"({"anyOf": []})", "anyOf beside the properties is not implemented"},
      {R"({"minProperties": 1})", "minProperties beside the properties"},
      {R"({"required": ["x"]})", "required: \"x\" is not among the properties"},
      {R"({"required": 1})", "required: expected an array"},
      {R"({"properties": []})", "properties: expected an object"},
      {R"({"properties": {"a": 1}})", "properties: expected schemas, got number for \"a\""},
      {R"({"properties": {"a": false}, "required": ["a"]})", "no value fits the property \"a\""},
  };
  for (const auto& [schema, words] : bad) {
    const absl::Status status = PropertiesOf(Root(schema)).status();
    EXPECT_FALSE(status.ok()) << schema;
    EXPECT_THAT(Message(status), HasSubstr(words));
  }
}

}  // namespace
}  // namespace lockstep::router
