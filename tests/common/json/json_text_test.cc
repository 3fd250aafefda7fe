#include "common/json/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The texts of the members "a" and "b".
std::vector<std::string_view> Members(std::string_view object) {
  return {JsonTextOfMember(object, "a"), JsonTextOfMember(object, "b")};
}

TEST(JsonTextTest, AMemberIsGivenAsItIsWritten) {
  const std::string object =
      R"( { "a" : 1.50 , "b":{"a": [1, {"c": "}\""}], "x":[]} ,"q\u0075ote" : "\"," , "d": -2e5})";
  EXPECT_EQ(JsonTextOfMember(object, "a"), "1.50");
  EXPECT_EQ(JsonTextOfMember(object, "b"), R"({"a": [1, {"c": "}\""}], "x":[]})");
  EXPECT_EQ(JsonTextOfMember(JsonTextOfMember(object, "b"), "a"), R"([1, {"c": "}\""}])");
  EXPECT_EQ(JsonTextOfMember(object, "quote"), R"("\",")");
  EXPECT_EQ(JsonTextOfMember(object, "d"), "-2e5");
  EXPECT_EQ(JsonTextOfMember(object, "c"), "");
  // It never reads outside, whatever the text is.
  for (size_t size = 0; size < object.size(); ++size) {
    JsonTextOfMember(std::string_view(object).substr(0, size), "d");
  }
  const std::string text = R"({"a": {"k": 1}, "k" : [1, {"b":2, "a":"\u006b"}] , "c": "k"})";
  EXPECT_EQ(JsonTextOfMember(text, "k"), R"([1, {"b":2, "a":"\u006b"}])");
  EXPECT_EQ(JsonTextOfMember(text, "c"), "\"k\"");
  EXPECT_EQ(JsonTextOfMember(text, "b"), "");
}

TEST(JsonTextTest, MembersAreFoundByTheirKeys) {
  EXPECT_THAT(Members(R"({"b": [1, {"a": 2}], "a": {"b": "}"}})"),
              ElementsAre(R"({"b": "}"})", R"([1, {"a": 2}])"));
  EXPECT_THAT(Members("\xEF\xBB\xBF \n{\"a\"\t: -1.5e3 ,\"c\":null}\n"), ElementsAre("-1.5e3", ""));
  EXPECT_THAT(Members(R"({"b":true})"), ElementsAre("", "true"));
  EXPECT_THAT(Members("{}"), ElementsAre("", ""));
  EXPECT_THAT(Members("[1]"), ElementsAre("", ""));
  EXPECT_THAT(Members(""), ElementsAre("", ""));
}

TEST(JsonTextTest, QuotesAndBracketsInStringsAreText) {
  EXPECT_THAT(Members(R"({"x": "\\\"]}\\", "a": "\"b\": 1", "b": "[\\"})"),
              ElementsAre(R"("\"b\": 1")", R"("[\\")"));
}

TEST(JsonTextTest, KeysMayHaveEscapes) {
  EXPECT_THAT(Members(R"({"\u0061": 1, "\u0062b": 2})"), ElementsAre("1", ""));
}

TEST(JsonTextTest, ElementsAreInOrder) {
  EXPECT_THAT(JsonTextsOfElements(R"( [ 1 , [2, 3],{"a": ["]"]} , "x,y" , [ ] ] )"),
              ElementsAre("1", "[2, 3]", R"({"a": ["]"]})", R"("x,y")", "[ ]"));
  EXPECT_THAT(JsonTextsOfElements("[ ]"), IsEmpty());
  EXPECT_THAT(JsonTextsOfElements("{}"), IsEmpty());
  EXPECT_THAT(JsonTextsOfElements(""), IsEmpty());
}

TEST(JsonTextTest, DeepTextsTakeNoStack) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(JsonTextOfMember("{\"a\":" + deep + "}", "a"), deep);
}

TEST(JsonTextTest, CompactJsonKeepsNumbersAndStringsAsTheyAre) {
  EXPECT_EQ(CompactJson(R"([ 1.50 , 1e2 , "\\" , " \" ", -0.0 ])"),
            R"([1.50,1e2,"\\"," \" ",-0.0])");
}

TEST(JsonTextTest, CompactJsonKeepsTheOrderOfKeys) {
  EXPECT_EQ(CompactJson(R"( { "b" : [ 1 , "a b" ] , "a" : null } )"),
            R"({"b":[1,"a b"],"a":null})");
}

}  // namespace
}  // namespace lockstep
