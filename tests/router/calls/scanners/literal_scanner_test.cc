#include "router/calls/scanners/literal_scanner.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace lockstep::router {
namespace {

using Dialect = LiteralScanner::Dialect;

std::optional<std::string> Scan(Dialect dialect, std::string_view text) {
  LiteralScanner scanner(dialect);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const ScanState state = scanner.Push(text[i], out);
    if (state == ScanState::kBad) return std::nullopt;
    if (state == ScanState::kDone) return i + 1 == text.size() ? std::optional(out) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> Python(std::string_view text) { return Scan(Dialect::kPython, text); }
std::optional<std::string> Gemma(std::string_view text) { return Scan(Dialect::kGemma, text); }

TEST(LiteralScannerTest, PythonValues) {
  EXPECT_EQ(Python("()"), "{}");
  EXPECT_EQ(Python("( a = 1 , b_2 = -2.5e3 , )"), R"({"a":1,"b_2":-2.5e3})");
  EXPECT_EQ(Python("(a=True, b=False, c=None, d=true, e=null)"),
            R"({"a":true,"b":false,"c":null,"d":true,"e":null})");
  EXPECT_EQ(Python("(a='x', b=\"y\", c='')"), R"({"a":"x","b":"y","c":""})");
  EXPECT_EQ(Python("(a=[1, [2, ], ('x',)], b={})"), R"({"a":[1,[2],["x"]],"b":{}})");
  EXPECT_EQ(Python("(a={'k': 1, \"l\" : {'m': [None]}, })"), R"({"a":{"k":1,"l":{"m":[null]}}})");
}

TEST(LiteralScannerTest, PythonStrings) {
  EXPECT_EQ(Python(R"((a='it\'s "so"'))"), R"({"a":"it's \"so\""})");
  EXPECT_EQ(Python(R"((a="\n\r\t\a\b\f\v\\"))"), R"({"a":"\n\r\t\u0007\u0008\u000c\u000b\\"})");
  EXPECT_EQ(Python(R"((a="\x41\u0042\U00000043\104\0"))"), R"({"a":"ABCD\u0000"})");
  EXPECT_EQ(Python(R"((a="\1018"))"), R"({"a":"A8"})");
  EXPECT_EQ(Python(R"((a="\ud83d\ude00\ud83dx\ude00\U00110000"))"),
            "{\"a\":\"\xF0\x9F\x98\x80\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD\"}");
  EXPECT_EQ(Python("(a='one\\\ntwo\nthree')"), R"({"a":"onetwo\nthree"})");
  EXPECT_EQ(Python(R"((a='\d+\.'))"), R"({"a":"\\d+\\."})");
}

TEST(LiteralScannerTest, PythonMistakes) {
  for (const char* const text :
       {"[]",          "(1)",       "('x')",      "(a)",        "(a=)",       "(a=1 b=2)",
        "(a=x)",       "(a=f(1))",  "(a=1, a=2)", "(=1)",       "(a=1,,b=2)", "(,)",
        "(a='x' 'y')", "(a=[1 2])", "(a=[,])",    "(a={1: 2})", "(a={x: 2})", "(a={'x'})",
        "(a={'x' 2})", "(a=0x10)",  "(a=1.)",     "(a=+1)",     "(a=[1)",     "(a=[1}])",
        "(a='\\xg')",  "(a-b=1)",   "(a=1]"}) {
    EXPECT_EQ(Python(text), std::nullopt) << text;
  }
}

TEST(LiteralScannerTest, GemmaValues) {
  EXPECT_EQ(Gemma("{}"), "{}");
  EXPECT_EQ(Gemma("{a:1,b:true,c:null,d:-1.5}"), R"({"a":1,"b":true,"c":null,"d":-1.5})");
  EXPECT_EQ(Gemma("{a:<|\"|>x\"\\\n<|\"|>}"), R"({"a":"x\"\\\n"})");
  EXPECT_EQ(Gemma("{<|\"|>a b<|\"|>:[<|\"|><|\"|>,{c:[]}]}"), R"({"a b":["",{"c":[]}]})");
  EXPECT_EQ(Gemma("{ a : one two , b : 3 }"), R"({"a":"one two","b":3})");
  EXPECT_EQ(Gemma("{a:True}"), R"({"a":true})");
}

TEST(LiteralScannerTest, GemmaMistakes) {
  for (const char* const text : {"()", "{a}", "{a:}", "{:1}", "{a:1,,}", "{a:<x>}", "{a:<| \"|>}",
                                 "{a:x{}", "{a:[1}", "{a 1}"}) {
    EXPECT_EQ(Gemma(text), std::nullopt) << text;
  }
}

TEST(LiteralScannerTest, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return "(a=" + std::string(depth, '[') + std::string(depth, ']') + ")";
  };
  EXPECT_TRUE(Python(nested(kMaxCallDepth - 1)));
  EXPECT_FALSE(Python(nested(kMaxCallDepth)));
}

}  // namespace
}  // namespace lockstep::router
