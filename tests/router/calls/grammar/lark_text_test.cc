#include "router/calls/grammar/lark_text.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/router/calls/grammar/marker_tokenizer.h"

namespace lockstep::router {
namespace {

TEST(LarkTextTest, StringsAreQuoted) {
  EXPECT_EQ(LarkString("a\"b\\\n\u00e9"), "\"a\\\"b\\\\\\n\u00e9\"");
  EXPECT_EQ(LarkString(""), "\"\"");
}

TEST(LarkTextTest, TextWithoutMarkersIsStillText) {
  EXPECT_EQ(LarkTextWithout({"", ""}), "/(?s:.*)/");
  EXPECT_EQ(LarkTextWithout({"<a>", "", "<b>"}),
            "(~(/(?s:.*)/ (\"<a>\" | \"<b>\") /(?s:.*)/) & /(?s:.*)/)");
}

TEST(LarkTextTest, SpecialTokensAreWrittenById) {
  const auto tokenizer = MarkerTokenizer({"<call>", "<sep>"});
  const std::string call = "<[" + std::to_string(*tokenizer->FindToken("<call>")) + "]>";
  const std::string sep = "<[" + std::to_string(*tokenizer->FindToken("<sep>")) + "]>";
  LarkSequence sequence(*tokenizer);
  sequence.Text("a").Marker("<call>f<sep>b").Text("c").Marker("").Rule("rule?").Text("d");
  EXPECT_EQ(sequence.Take(), "\"a\" " + call + " \"f\" " + sep + " \"bc\" rule? \"d\"");
  // A token that is not special is only a text.
  EXPECT_EQ(LarkSequence(*tokenizer).Marker("<tool>").Text("x").Take(), "\"<tool>x\"");
}

TEST(LarkTextTest, ATextAndItsEndAreOneTerminalAsFarAsPossible) {
  const auto tokenizer = MarkerTokenizer({"<sep>"});
  const std::string sep = "<[" + std::to_string(*tokenizer->FindToken("<sep>")) + "]>";
  LarkRules rules;
  EXPECT_EQ(rules.AddTextUntil("A", "(x)", "</a>", *tokenizer), "A");
  EXPECT_EQ(rules.AddTextUntil("B", "(x)", "<sep>", *tokenizer), "B " + sep);
  EXPECT_EQ(rules.AddTextUntil("C", "(x)", "</<sep>c>", *tokenizer), "C " + sep + " \"c>\"");
  EXPECT_EQ(rules.text(), "A: (x) \"</a>\"\nB: (x)\nC: (x) \"</\"\n");
}

}  // namespace
}  // namespace lockstep::router
