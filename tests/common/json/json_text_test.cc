#include "common/json/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JsonTextTest, FindsAMemberAsItIsWritten) {
  constexpr std::string_view kText =
      " {\"b\" : { \"z\":1, \"a\":[2 , {}] } ,\"s\":\"}\\\"],\\\\\", \"n\":18446744073709551617,"
      "\"e\" :[ ] , \"in\\u0070ut\": null, \"last\" : true }";
  const struct {
    std::string_view key;
    std::string_view value;
  } cases[] = {
      {"b", R"({ "z":1, "a":[2 , {}] })"},
      {"s", R"("}\"],\\")"},
      {"n", "18446744073709551617"},
      {"e", "[ ]"},
      {"input", "null"},
      {"last", "true"},
      {"z", ""},  // of an inner object
      {"", ""},
  };
  for (const auto& [key, value] : cases) EXPECT_EQ(JsonTextOfMember(kText, key), value) << key;
  EXPECT_EQ(JsonTextOfMember("\xEF\xBB\xBF{\"a\":1}", "a"), "1") << "a byte order mark";
  for (const std::string_view other : {"{}", "[\"a\"]", "\"a\"", "1", "", " "}) {
    EXPECT_EQ(JsonTextOfMember(other, "a"), "") << other;
  }
}

TEST(JsonTextTest, FindsTheElementsAsTheyAreWritten) {
  EXPECT_THAT(JsonTextsOfElements(R"( [ 1.50 ,"a,]" , [ ],{"b" : [1]} ,null ] )"),
              ElementsAre("1.50", R"("a,]")", "[ ]", R"({"b" : [1]})", "null"));
  EXPECT_THAT(JsonTextsOfElements("[[],[]]"), ElementsAre("[]", "[]"));
  for (const std::string_view none : {"[]", "[ ]", "{}", "{\"a\":[1]}", "\"[1]\"", ""}) {
    EXPECT_THAT(JsonTextsOfElements(none), IsEmpty()) << none;
  }
}

TEST(JsonTextTest, WhiteSpaceGoesOnlyBetweenTokens) {
  EXPECT_EQ(CompactJson(" { \"a b\" : [ 1 ,\t-2.0e5 , \" \\\" \\\\\" ] ,\r\n\"c\":{ } } "),
            "{\"a b\":[1,-2.0e5,\" \\\" \\\\\"],\"c\":{}}");
  EXPECT_EQ(CompactJson("\xEF\xBB\xBF[ 1 ]"), "[1]");
  EXPECT_EQ(CompactJson(""), "");
}

// A value of any kind, with texts that look like marks.
nlohmann::json RandomValue(std::mt19937& random, int depth) {
  const std::vector<std::string> texts = {"",   "a",  "{",    "}]",  ",", ":",
                                          "\"", "\\", "\\\"", " \n", "é"};
  const auto text = [&] { return texts[random() % texts.size()] + texts[random() % texts.size()]; };
  switch (depth > 0 ? random() % 6 : random() % 4) {
    case 0:
      return static_cast<int>(random() % 1000) - 500;
    case 1:
      return text();
    case 2:
      return random() % 2 == 0;
    case 3:
      return nullptr;
    case 4: {
      nlohmann::json array = nlohmann::json::array();
      for (uint32_t i = random() % 4; i > 0; --i) array.push_back(RandomValue(random, depth - 1));
      return array;
    }
    default: {
      nlohmann::json object = nlohmann::json::object();
      for (uint32_t i = random() % 4; i > 0; --i) object[text()] = RandomValue(random, depth - 1);
      return object;
    }
  }
}

TEST(JsonTextTest, AgreesWithTheParserOnRandomValues) {
  std::mt19937 random(20260);
  for (int round = 0; round < 2000; ++round) {
    const nlohmann::json value = RandomValue(random, 4);
    // Half of them with white space, and with escapes for characters above ASCII.
    const bool wide = random() % 2 == 0;
    const std::string text = value.dump(wide ? 2 : -1, ' ', /*ensure_ascii=*/wide);
    EXPECT_EQ(CompactJson(text), value.dump(-1, ' ', wide));
    if (value.is_object()) {
      for (const auto& [key, member] : value.items()) {
        EXPECT_EQ(nlohmann::json::parse(JsonTextOfMember(text, key)), member) << text << key;
      }
    }
    const std::vector<std::string_view> elements = JsonTextsOfElements(text);
    ASSERT_EQ(elements.size(), value.is_array() ? value.size() : 0u) << text;
    for (size_t i = 0; i < elements.size(); ++i) {
      EXPECT_EQ(nlohmann::json::parse(elements[i]), value[i]) << text;
    }
  }
}

}  // namespace
}  // namespace lockstep
