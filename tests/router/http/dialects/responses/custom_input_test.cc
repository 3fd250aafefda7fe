#include "router/http/dialects/responses/custom_input.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

namespace lockstep::router {
namespace {

struct Arguments {
  std::string json;
  std::string text;
  bool whole;
};

const Arguments kArguments[] = {
    {R"({"input":"abc"})", "abc", true},
    {" {\n \"input\" :\t\"\"} ", "", true},
    {R"({"input":"a\"b\\c\/d\n\t\r\b\f"})", "a\"b\\c/d\n\t\r\b\f", true},
    {R"({"input":"\u00e4\u20AC\u0041\u0000z"})", std::string("ä€A\0z", 8), true},
    {R"({"input":"\ud83d\ude00!"})", "😀!", true},
    {"{\"input\":\"ä😀\"}", "ä😀", true},
    // Halves of a pair, and escapes that JSON does not have.
    {R"({"input":"\ud83dx\ude00\ud83d\ud83d\ude00\ud83d"})", "�x��😀�", true},
    {R"({"input":"\q\uzzzz"})", "q�", true},
    // What follows the text does not count.
    {R"({"input":"a","more":1})", "a", true},
    // Cut.
    {R"({"input":"ab)", "ab", false},
    {R"({"input":"ab\u00)", "ab", false},
    {R"({"input":"ab\ud83d)", "ab�", false},
    {R"({"input":)", R"({"input":)", false},
    {"", "", false},
    // Other arguments.
    {R"({"patch":"abc"})", R"({"patch":"abc"})", false},
    {R"({"input":5})", R"({"input":5})", false},
    {R"({"inputs":"a"})", R"({"inputs":"a"})", false},
    {"{}", "{}", false},
    {R"(["input"])", R"(["input"])", false},
};

TEST(CustomInputTest, TheTextComesOutOfItsArguments) {
  for (const Arguments& arguments : kArguments) {
    SCOPED_TRACE(arguments.json);
    CustomInput input;
    std::string text = input.Push(arguments.json);
    text += input.Finish();
    EXPECT_EQ(text, arguments.text);
    EXPECT_EQ(input.whole(), arguments.whole);
  }
}

TEST(CustomInputTest, TheTextDoesNotDependOnTheCuts) {
  std::mt19937 random(1);
  for (const Arguments& arguments : kArguments) {
    SCOPED_TRACE(arguments.json);
    for (int round = 0; round < 50; ++round) {
      CustomInput input;
      std::string text;
      size_t at = 0;
      while (at < arguments.json.size()) {
        const size_t size = round == 0 ? 1 : 1 + random() % 5;
        text += input.Push(std::string_view(arguments.json).substr(at, size));
        at += size;
      }
      text += input.Finish();
      EXPECT_EQ(text, arguments.text);
      EXPECT_EQ(input.whole(), arguments.whole);
    }
  }
}

TEST(CustomInputTest, TextIsPassedOnAtOnce) {
  CustomInput input;
  EXPECT_EQ(input.Push(R"({"input":"ab)"), "ab");
  EXPECT_EQ(input.Push("c"), "c");
  EXPECT_EQ(input.Push("\\"), "");
  EXPECT_EQ(input.Push("n"), "\n");
}

}  // namespace
}  // namespace lockstep::router
