#include "router/calls/grammar/value_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

// The strings as 'literal' or (min,max), the words, the single values, the schemas with their types
// behind a colon, and "*" for anything.
std::string Choices(const std::string& value, const std::string& root_text = "{}") {
  const OrderedJson schema = OrderedJson::parse(value);
  const OrderedJson root = *ParseArgumentSchema(root_text);
  const absl::StatusOr<ValueChoices> choices = ChoicesOf(schema, root);
  if (!choices.ok()) return Message(choices.status());
  std::string text = choices->anything ? "*" : "";
  for (const StringChoice& choice : choices->strings) {
    text += choice.literal
                ? "'" + std::string(*choice.literal) + "'"
                : "(" + std::to_string(choice.min_length) + "," +
                      (choice.max_length ? std::to_string(*choice.max_length) : "") + ")";
  }
  for (const std::string_view word : choices->words) text += " " + std::string(word);
  for (const OrderedJson* const number : choices->numbers) text += " " + number->dump();
  for (const OrderedJson* const structure : choices->structures) text += " " + structure->dump();
  for (const TypedSchema& typed : choices->schemas) {
    OrderedJson copy = CopyOf(typed);
    copy.erase("type");
    text += " " + std::string(typed.type) + (IsFree(typed) ? "" : ":" + copy.dump());
  }
  return text;
}

TEST(ValueChoicesTest, StringsAreToldFromOtherValues) {
  EXPECT_EQ(Choices("{}"), "*");
  EXPECT_EQ(Choices("true"), "*");
  EXPECT_EQ(Choices(R"({"description": "d", "format": "uri"})"), "*");
  EXPECT_EQ(Choices(R"({"type": "string", "format": "uri", "minimum": 3})"), "(0,)");
  EXPECT_EQ(Choices(R"({"type": "string", "minLength": 1, "maxLength": 9})"), "(1,9)");
  EXPECT_EQ(Choices(R"({"type": ["string", "null"]})"), "(0,) null");
  EXPECT_EQ(Choices(R"({"enum": ["a", 1, "b", null]})"), "'a''b' null 1");
  EXPECT_EQ(Choices(R"({"type": "string", "enum": ["a", 1]})"), "'a'");
  EXPECT_EQ(Choices(R"({"const": "a"})"), "'a'");
  EXPECT_EQ(Choices(R"({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]})"),
            R"((0,) integer:{"minimum":3})");
  EXPECT_EQ(Choices(R"({"type": ["string", "boolean", "number"], "maxLength": 3})"),
            R"((0,3) false true number:{"maxLength":3})");
  EXPECT_EQ(Choices(R"({"enum": [null, {}, [1], 2.5, true]})"), " null true 2.5 {} [1]");
  // 1.0 and 10.0 are whole numbers.
  EXPECT_EQ(Choices(R"({"type": ["integer", "string"], "enum": [1.0, 1.5, "a"]})"), "'a' 1.0");
  EXPECT_EQ(Choices(R"({"type": "string", "maxLength": 10.0})"), "(0,10)");
  EXPECT_EQ(Choices(R"({"oneOf": [{"const": "a"}, {"const": "b", "title": "B"}]})"), "'a''b'");
  EXPECT_EQ(Choices(R"({"allOf": [{"$ref": "#/$defs/A"}], "default": "x"})",
                    R"({"$defs": {"A": {"enum": ["x", "y"]}}})"),
            "'x''y'");
  // Each schema counts once.
  EXPECT_EQ(Choices(R"({"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]})",
                    R"({"$defs": {"A": {"type": ["null", "string", "object", "null"]}}})"),
            "(0,) null object");
}

TEST(ValueChoicesTest, ExactlyOneSchemaFits) {
  EXPECT_EQ(Choices(R"({"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]})"),
            "(0,) false true number");
  EXPECT_EQ(Choices(R"({"oneOf": [{"type": ["null", "boolean"]}, {"enum": ["a", true]},
                                  {"type": "object", "minProperties": 1}, {"const": [2]}]})"),
            R"('a' false null [2] object:{"minProperties":1})");
  EXPECT_EQ(Choices(R"({"oneOf": [{"enum": ["a", 1, 2, 2]}, {"enum": ["b", 2.0, 3]}]})"),
            "'a''b' 1 3");
  // The engine decides about numbers, and about objects, of several members.
  EXPECT_EQ(Choices(R"({"oneOf": [{"type": "string"}, {"type": "integer", "maximum": 2},
                                  {"type": ["number", "null"], "minimum": 5}]})"),
            R"((0,) null number:{"oneOf":[{"maximum":2,"type":"integer"},)"
            R"({"minimum":5,"type":"number"}]})");
  EXPECT_EQ(Choices(R"({"oneOf": [{"type": "object"}, {"enum": ["a", {}]}]})"),
            "oneOf with schemas that may allow the same object is not implemented");
  EXPECT_EQ(Choices(R"({"oneOf": [{}]})"), "*");
}

TEST(ValueChoicesTest, WhatCannotBeToldApartIsNamed) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"type": "string", "pattern": "a"})", "pattern of a string is not implemented"},
      {R"({"type": "string", "not": {"const": "a"}})", "not of a string is not implemented"},
      {R"({"enum": ["a"], "minLength": 3})", "minLength beside enum or const"},
      {R"({"oneOf": [{"type": "string"}, {"const": "a"}]})", "oneOf with schemas that may allow"},
      {R"({"oneOf": [{"type": "string"}, {}]})", "oneOf with schemas that may allow"},
      {R"({"type": ["string", "null"], "not": {"const": "a"}})", "not of a null beside strings"},
      {R"({"type": ["string", "strange"]})", "type: expected the name of a type, got \"strange\""},
      {R"({"type": "string", "maxLength": 1.5})", "maxLength: expected a count"},
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
              HasSubstr("a schema of strings that refers to itself"));
  // Members of oneOf are taken apart each time.
  std::string members = R"({"$ref": "#/$defs/A"})";
  for (int i = 0; i < 1000; ++i) members += R"(, {"$ref": "#/$defs/A"})";
  EXPECT_THAT(Choices(R"({"oneOf": [)" + members + "]}", R"({"$defs": {"A": {"const": 1}}})"),
              HasSubstr("its alternatives are too many"));
}

}  // namespace
}  // namespace lockstep::router
