#include "router/calls/scanners/schema_value.h"

#include <gtest/gtest.h>

namespace lockstep::router {
namespace {

TEST(SchemaValueTest, OnlyStrings) {
  EXPECT_TRUE(IsOnlyString({"string"}));
  EXPECT_FALSE(IsOnlyString({"string", "null"}));
  EXPECT_FALSE(IsOnlyString({"integer"}));
  EXPECT_FALSE(IsOnlyString({}));
}

TEST(SchemaValueTest, StringsStayAsTheyAre) {
  EXPECT_EQ(ValueToJson("12", {"string"}), R"("12")");
  EXPECT_EQ(ValueToJson(" a \"b\"\n", {"string"}), R"(" a \"b\"\n")");
  EXPECT_EQ(ValueToJson("", {"string"}), R"("")");
}

TEST(SchemaValueTest, OtherTypesAreJson) {
  EXPECT_EQ(ValueToJson("12", {"integer"}), "12");
  EXPECT_EQ(ValueToJson(" 1.5\n", {"number"}), "1.5");
  EXPECT_EQ(ValueToJson("123456789012345678901234567890", {"integer"}),
            "123456789012345678901234567890");
  EXPECT_EQ(ValueToJson("true", {"boolean"}), "true");
  EXPECT_EQ(ValueToJson("False", {"boolean"}), "false");
  EXPECT_EQ(ValueToJson("None", {"integer", "null"}), "null");
  EXPECT_EQ(ValueToJson(R"({"a": [1]})", {"object"}), R"({"a": [1]})");
  EXPECT_EQ(ValueToJson("[1]", {"array"}), "[1]");
}

TEST(SchemaValueTest, TextThatIsNoJson) {
  EXPECT_EQ(ValueToJson("twelve", {"integer"}), R"("twelve")");
  EXPECT_EQ(ValueToJson("{'a': 1}", {"object"}), R"("{'a': 1}")");
  EXPECT_EQ(ValueToJson("", {"integer"}), R"("")");
}

TEST(SchemaValueTest, SeveralTypes) {
  EXPECT_EQ(ValueToJson("12", {"string", "integer"}), "12");
  EXPECT_EQ(ValueToJson("12a", {"string", "integer"}), R"("12a")");
  EXPECT_EQ(ValueToJson("null", {"string", "null"}), "null");
  EXPECT_EQ(ValueToJson("12", {"string", "null"}), R"("12")");
  EXPECT_EQ(ValueToJson("\"x\"", {"string", "null"}), R"("\"x\"")");
  // Neither fits: the client sees what the model said.
  EXPECT_EQ(ValueToJson("[1]", {"integer"}), "[1]");
}

TEST(SchemaValueTest, NoSchema) {
  EXPECT_EQ(ValueToJson("12", {}), "12");
  EXPECT_EQ(ValueToJson("x y", {}), R"("x y")");
  EXPECT_EQ(ValueToJson("\"x\"", {}), R"("x")");
  EXPECT_EQ(ValueToJson("True", {}), "true");
}

}  // namespace
}  // namespace lockstep::router
