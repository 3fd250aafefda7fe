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

// The strings as "literal" or (min,max), the other schemas, and "*" for anything.
std::string Choices(const std::string& value, const std::string& root = "{}") {
  const absl::StatusOr<ValueChoices> choices = ChoicesOf(OrderedJson::parse(value), Root(root));
  if (!choices.ok()) return Message(choices.status());
  std::string text = choices->anything ? "*" : "";
  for (const StringChoice& choice : choices->strings) {
    text += choice.literal
                ? "'" + *choice.literal + "'"
                : "(" + std::to_string(choice.min_length) + "," +
                      (choice.max_length ? std::to_string(*choice.max_length) : "") + ")";
  }
  for (const OrderedJson& other : choices->others) text += other.dump();
  return text;
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
      // These say something, or are no keywords.
      {R"({"propertyNames":{"maxLength":3}})", nullptr},
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

TEST(ArgumentSchemaTest, StringsAreToldFromOtherValues) {
  EXPECT_EQ(Choices("{}"), "*");
  EXPECT_EQ(Choices("true"), "*");
  EXPECT_EQ(Choices(R"({"description": "d", "format": "uri"})"), "*");
  EXPECT_EQ(Choices(R"({"type": "string", "format": "uri", "minimum": 3})"), "(0,)");
  EXPECT_EQ(Choices(R"({"type": "string", "minLength": 1, "maxLength": 9})"), "(1,9)");
  EXPECT_EQ(Choices(R"({"type": ["string", "null"]})"), R"((0,){"type":"null"})");
  EXPECT_EQ(Choices(R"({"enum": ["a", 1, "b", null]})"), R"('a''b'{"enum":[1,null]})");
  EXPECT_EQ(Choices(R"({"type": "string", "enum": ["a", 1]})"), "'a'");
  EXPECT_EQ(Choices(R"({"const": "a"})"), "'a'");
  EXPECT_EQ(Choices(R"({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]})"),
            R"((0,){"type":"integer","minimum":3})");
  EXPECT_EQ(Choices(R"({"oneOf": [{"const": "a"}, {"const": "b", "title": "B"}]})"), "'a''b'");
  EXPECT_EQ(Choices(R"({"allOf": [{"$ref": "#/$defs/A"}], "default": "x"})",
                    R"({"$defs": {"A": {"enum": ["x", "y"]}}})"),
            "'x''y'");
}

TEST(ArgumentSchemaTest, WhatCannotBeToldApartIsNamed) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"type": "string", "pattern": "a"})", "pattern of a string is not implemented"},
      {R"({"type": "string", "not": {"const": "a"}})", "not of a string is not implemented"},
      {R"({"enum": ["a"], "minLength": 3})", "minLength beside enum or const"},
      {R"({"oneOf": [{"type": "string"}, {"const": "a"}]})", "oneOf with schemas that may allow"},
      {R"({"allOf": [{"type": "string"}, {}]})", "strings of a schema with allOf and no type"},
      {R"({"$ref": "#"})", "strings of a schema with $ref and no type"},
      {R"({"$ref": "#/$defs/none"})", "strings of a schema with $ref and no type"},
      {R"({"type": [1]})", "type: expected the name of a type"},
      {R"({"type": "string", "maxLength": -1})", "maxLength: expected a count"},
  };
  for (const auto& [schema, words] : bad) EXPECT_THAT(Choices(schema), HasSubstr(words)) << schema;
  // A schema that refers only to itself.
  EXPECT_THAT(Choices(R"({"$ref": "#/$defs/A"})",
                      R"({"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}})"),
              HasSubstr("its alternatives are too many"));
}

}  // namespace
}  // namespace lockstep::router
