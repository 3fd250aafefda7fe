#include "common/json/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseJsonTest, AgreesWithTheLibrarysOwnParser) {
  for (const char* text : {"null", "true", "-7", "18446744073709551615", "1.5e3", "\"a\\u00e9\"",
                           "[]", "{}", R"([1,[2,{"a":[]}],{"b":null}])",
                           R"( {"a": {"b": [1, 2]}, "c": [{"d": "x"}], "e": 0.1} )"}) {
    const absl::StatusOr<nlohmann::json> parsed = ParseJson(text, "f");
    ASSERT_THAT(parsed, IsOk()) << text;
    EXPECT_EQ(*parsed, nlohmann::json::parse(text)) << text;
  }
}

// Pieces of texts that are nearly JSON.
constexpr std::string_view kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"k\":",
                                        "\"",
                                        "\\",
                                        "\\n",
                                        "\\u00e9",
                                        "\\ud83d\\ude00",
                                        "\\ud83d",
                                        "\"a\\u0041\\/\\\"b\"",
                                        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xc0\xaf\"",
                                        "0",
                                        "-0",
                                        "-",
                                        "01",
                                        "1.",
                                        "1.5",
                                        "-2e3",
                                        "1E+2",
                                        "1e",
                                        "18446744073709551616",
                                        "-9223372036854775809",
                                        "1e-400",
                                        "1e400",
                                        "true",
                                        "false",
                                        "null",
                                        "nul",
                                        " ",
                                        "\n\t\r",
                                        "\xef\xbb\xbf",
                                        "\x01",
                                        "[1,2]",
                                        "{\"a\":{\"b\":[]}}"};

// Texts that are nearly JSON: pieces in any order, some bytes of them changed.
TEST(ParseJsonTest, AgreesWithTheLibrarysOwnParserOnWhatIsJson) {
  std::mt19937_64 random(20261122);
  const auto draw = [&random](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  size_t num_valid = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = draw(2) == 0 ? "[" : "";
    const bool array = !text.empty();
    for (size_t n = 1 + draw(5); n > 0; --n) {
      text += kPieces[draw(std::size(kPieces))];
      if (array && n > 1) text += ",";
    }
    if (array) text += "]";
    // The library takes a zero byte for the end of the text, which is not strict.
    if (draw(4) == 0) text[draw(text.size())] = static_cast<char>(1 + draw(255));
    const nlohmann::json expected =
        nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const absl::StatusOr<nlohmann::json> parsed = ParseJson(text, "f");
    if (!parsed.ok() && Message(parsed.status()).find("present twice") != std::string::npos) {
      continue;
    }
    ASSERT_EQ(parsed.ok(), !expected.is_discarded()) << text << ": " << parsed.status();
    if (!parsed.ok()) continue;
    ++num_valid;
    ASSERT_EQ(*parsed, expected) << text;
    ASSERT_EQ(parsed->type(), expected.type()) << text;
  }
  EXPECT_GT(num_valid, 1'000u);
}

TEST(ParseJsonTest, AZeroByteIsNoEnd) {
  EXPECT_THAT(ParseJson(std::string("1\0", 2), "f"), HasError(kInvalid, HasSubstr("byte 2: ")));
}

TEST(ParseJsonTest, NumbersAreAsLongAsAnybodyNeeds) {
  EXPECT_THAT(ParseJson(std::string(1000, '7'), "f").status(),
              HasError(kInvalid, HasSubstr("range")));
  EXPECT_THAT(ParseJson("0." + std::string(998, '7'), "f"), IsOk());
  EXPECT_THAT(ParseJson("0." + std::string(999, '7'), "f"),
              HasError(kInvalid, HasSubstr("a number is too long")));
}

TEST(ParseJsonTest, ErrorsNameTheFileAndTheByte) {
  EXPECT_THAT(ParseJson(R"({"a": 1,})", "x.json"),
              HasError(kInvalid, HasSubstr("x.json: byte 9: ")));
  for (const char* text : {"", "{", "[1,", "nul", "1 2", "{\"a\" 1}", "\"open", "[1e999]",
                           "\"\xff\"", "NaN", "{a:1}", "'a'", "\"a\nb\"", "// c\n1"}) {
    EXPECT_THAT(ParseJson(text, "x.json"), HasError(kInvalid, HasSubstr("x.json: byte "))) << text;
  }
}

// Whatever was read last: a token may be as long as the text.
TEST(ParseJsonTest, ErrorsQuoteLittle) {
  const std::string large(1'000'000, 'k');
  const std::string controls(1'000'000, '\x7f');
  for (const std::string& text :
       {'"' + large, '"' + large + "\n\"", '"' + controls + '\xff', '"' + large + "\\ud800\"",
        std::string(1'000'000, '9') + "e99999", "{\"" + large + "\":1,\"" + large + "\":2}",
        "{\"" + large + "\" 1}", "[1," + large, large}) {
    const absl::Status status = ParseJson(text, "f").status();
    ASSERT_EQ(status.code(), kInvalid);
    const std::string message = Message(status);
    EXPECT_LE(message.size(), 300u) << message;
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) {
      return c >= 0x20 && c < 0x7f;
    })) << message;
  }
}

TEST(ParseJsonTest, ErrorsQuoteTheEndOfWhatWasReadLast) {
  EXPECT_THAT(ParseJson("{\"a\": \"b\xff\"}", "f"),
              HasError(kInvalid, AllOf(HasSubstr("f: byte 9: "), HasSubstr(" at \"\"b\\xff\""))));
}

TEST(ParseJsonTest, ErrorsQuoteNothingWhereTheTextHoldsSecrets) {
  const JsonLimits limits = {.max_quoted_bytes = 0};
  for (const char* text : {"\"secret", "secret", "[\"secret\xff\"]", "{\"secret\":1,\"secret\":2}",
                           "[\"secret'; expected\n\"]", "'secret'", "{secret:1}"}) {
    const absl::Status status = ParseJson(text, "f", limits).status();
    ASSERT_EQ(status.code(), kInvalid) << text;
    EXPECT_THAT(Message(status), ::testing::Not(HasSubstr("secret"))) << text;
    EXPECT_THAT(Message(status), ::testing::StartsWith("f: "));
  }
}

TEST(ParseJsonTest, TheMeterHearsWhatTheResultTakes) {
  std::string objects = "[{}";
  for (int i = 0; i < 100'000; ++i) objects += ",{}";
  objects += "]";
  size_t heard = 0;
  const auto take_all = [&heard](size_t num_bytes) {
    EXPECT_GT(num_bytes, heard);
    heard = num_bytes;
    return true;
  };
  EXPECT_THAT(ParseJson(objects, "f", {}, take_all), IsOk());
  EXPECT_GT(heard, 100'000u * sizeof(nlohmann::json));
  heard = 0;
  EXPECT_THAT(ParseJson('"' + std::string(1'000'000, 'x') + '"', "f", {}, take_all), IsOk());
  EXPECT_GE(heard, 1'000'000u);
  EXPECT_THAT(
      ParseJson(objects, "f", {}, [](size_t num_bytes) { return num_bytes < 1'000'000; }),
      HasError(absl::StatusCode::kResourceExhausted, HasSubstr("f: takes too much memory")));
  heard = 0;
  EXPECT_THAT(ParseJson('"' + std::string(1'000'000, 'x'), "f", {}, take_all),
              HasError(kInvalid, HasSubstr("a string has no end")));
  EXPECT_EQ(heard, 0u) << "nothing was made of it";
  EXPECT_THAT(ParseJson("[1,2]", "f", {}, take_all), IsOk());
  EXPECT_EQ(heard, 0u) << "little is not worth a word";
}

TEST(ParseJsonTest, AKeyTwiceIsAnErrorInItsObjectOnly) {
  EXPECT_THAT(ParseJson(R"([{"a":1},{"a":2,"b":{"a":3}}])", "f"), IsOk());
  EXPECT_THAT(ParseJson(R"({"b":{"a":1,"a":2}})", "f"),
              HasError(kInvalid, HasSubstr("key \"a\" is present twice")));
}

TEST(ParseJsonTest, DepthIsBoundedWhateverTheLength) {
  const JsonLimits limits = {.max_depth = 3};
  EXPECT_THAT(ParseJson("[[[1]]]", "f", limits), IsOk());
  EXPECT_THAT(ParseJson("[[[[1]]]]", "f", limits),
              HasError(kInvalid, HasSubstr("nested deeper than 3 levels")));
  EXPECT_THAT(ParseJson(std::string(10'000'000, '['), "f"),
              HasError(kInvalid, HasSubstr("nested deeper than 64")));
}

TEST(ParseJsonTest, TheNumberOfValuesIsBounded) {
  const JsonLimits limits = {.max_values = 4};
  EXPECT_THAT(ParseJson("[1,2,3]", "f", limits), IsOk());
  EXPECT_THAT(ParseJson("[1,2,3,4]", "f", limits),
              HasError(kInvalid, HasSubstr("more than 4 values")));
}

TEST(ParseJsonTest, TellsTheTextOfOneMemberOfTheRoot) {
  const auto text_of = [](std::string_view text) {
    JsonMemberText member = {.key = "k"};
    EXPECT_THAT(ParseJson(text, "f", {}, nullptr, &member), IsOk()) << text;
    return std::string(member.text);
  };
  EXPECT_EQ(text_of(R"({"k":{"b":1,"a":[{"k":2}]},"c":3})"), R"({"b":1,"a":[{"k":2}]})");
  EXPECT_EQ(text_of(R"({"\u006b":{}})"), "{}");
  EXPECT_EQ(text_of(R"({"a":{"k":1},"k":5})"), "5");
  EXPECT_EQ(text_of(R"({"k":"}"})"), R"("}")");
  for (const char* without : {"{}", R"({"a":{"k":1}})", R"([{"k":1}])", R"(["k"])", R"("k")"}) {
    EXPECT_EQ(text_of(without), "") << without;
  }
}

TEST(RewriteJsonTest, KeepsTheOrderAndChangesStrings) {
  const auto same = [](std::string text) { return text; };
  for (const char* text : {R"({"b":[1,-2,{"d":null,"c":true}],"a":{}})", "[]", "[[],{},[{}]]",
                           "18446744073709551615", R"("a\"\\\n\u0001")", "[1.5,1e-07,-0.0]"}) {
    EXPECT_EQ(RewriteJson(text, same), text);
  }
  EXPECT_EQ(RewriteJson(R"( { "z" : "\u00e9" , "a" : [ 1 , 2 ] } )", same),
            "{\"z\":\"\u00e9\",\"a\":[1,2]}");
  EXPECT_EQ(RewriteJson(R"({"b":"x","a":["y",1]})", [](std::string text) { return "<" + text; }),
            R"({"<b":"<x","<a":["<y",1]})");
}

TEST(RewriteJsonTest, WhatIsChangedMayBeAnyBytes) {
  const auto bytes = [](const std::string&) { return std::string("\xED\xB0\x80\"\b\x1F\x7F"); };
  EXPECT_EQ(RewriteJson(R"({"a":["b"]})", bytes),
            "{\"\xED\xB0\x80\\\"\\b\\u001f\x7F\":[\"\xED\xB0\x80\\\"\\b\\u001f\x7F\"]}");
}

TEST(JsonObjectReaderTest, ReadsTypedMembersAndTakesNullForAbsent) {
  const auto object = nlohmann::json::parse(R"({"n":3,"x":0.5,"b":true,"s":"t","z":null})");
  JsonObjectReader reader(object, "f");
  EXPECT_EQ(**reader.Uint("n"), 3u);
  EXPECT_EQ(**reader.Number("n"), 3.0);
  EXPECT_EQ(**reader.Number("x"), 0.5);
  EXPECT_EQ(**reader.Bool("b"), true);
  EXPECT_EQ(**reader.String("s"), "t");
  for (const char* key : {"z", "absent"}) {
    EXPECT_EQ(*reader.Uint(key), std::nullopt);
    EXPECT_EQ(*reader.Number(key), std::nullopt);
    EXPECT_EQ(*reader.Bool(key), std::nullopt);
    EXPECT_EQ(*reader.String(key), std::nullopt);
  }
  EXPECT_TRUE(reader.IsNull("z"));
  EXPECT_FALSE(reader.IsNull("absent"));
  EXPECT_FALSE(reader.IsNull("n"));
}

TEST(JsonObjectReaderTest, WrongTypesNameFilePathAndValue) {
  const auto object = nlohmann::json::parse(R"({"n":-1,"s":"text"})");
  JsonObjectReader reader(object, "c.json", "rope_scaling");
  EXPECT_THAT(reader.Uint("n"),
              HasError(kInvalid, "c.json: rope_scaling.n is -1, expected an integer >= 0"));
  EXPECT_THAT(reader.Uint("s"), HasError(kInvalid, HasSubstr("rope_scaling.s is \"text\"")));
  EXPECT_THAT(reader.Number("s"), HasError(kInvalid, HasSubstr("expected a number")));
  EXPECT_THAT(reader.Bool("n"), HasError(kInvalid, HasSubstr("expected true or false")));
  EXPECT_THAT(reader.String("n"), HasError(kInvalid, HasSubstr("expected a string")));
}

TEST(JsonObjectReaderTest, WrongTypesAreNamedWithoutTheirValueWhereThatIsASecret) {
  const auto object = nlohmann::json::parse(R"({"s":"secret"})");
  JsonObjectReader reader(object, "f", "", /*quotes_values=*/false);
  EXPECT_THAT(reader.Uint("s"), HasError(kInvalid, "f: s is string, expected an integer >= 0"));
}

TEST(JsonObjectReaderTest, TellsWhatWasNeverAskedFor) {
  const auto object = nlohmann::json::parse(R"({"a":1,"b":2,"c":3})");
  JsonObjectReader reader(object, "f");
  reader.Find("b");
  EXPECT_THAT(reader.UnreadKeys(), ElementsAre("a", "c"));
}

TEST(DescribeJsonTest, IsShortPrintableAndSafeForInvalidText) {
  EXPECT_EQ(DescribeJson(nlohmann::json::parse(R"({"a":[1,2]})")), R"({"a":[1,2]})");
  EXPECT_EQ(DescribeJson(std::vector<int>(100)), "an array of 100 elements");
  EXPECT_LE(DescribeJson(std::string(1000, 'x')).size(), 63u);
  EXPECT_EQ(DescribeJson("a\n\xff"), R"("a\n\ufffd")");
  EXPECT_EQ(DescribeJson(nlohmann::json{{"a", std::string(1000, 'x')}}), "an object of 1 members");
  EXPECT_EQ(DescribeJson(nlohmann::json::array({std::vector<int>(100)})), "an array of 1 elements");
}

}  // namespace
}  // namespace lockstep
