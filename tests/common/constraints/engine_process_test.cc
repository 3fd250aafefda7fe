// What the engine allows, through its process.
#include "common/constraints/engine_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/common/constraints/test_engine.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::kEndToken;
using testing::kNameToken;
using testing::kNoToken;
using testing::kOpenQuoteToken;
using testing::kSpecialToken;
using ::testing::StartsWith;
using testing::TokensOf;
using testing::Walk;

constexpr std::array<TokenId, 1> kEnds = {kEndToken};
constexpr char kNamed[] =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"], "additionalProperties": false})";

Constraint Schema(std::string text) { return {ConstraintKind::kJsonSchema, std::move(text)}; }
Constraint Regex(std::string text) { return {ConstraintKind::kRegex, std::move(text)}; }
Constraint Choice(std::string text) { return {ConstraintKind::kChoice, std::move(text)}; }
Constraint Grammar(std::string text) { return {ConstraintKind::kGrammar, std::move(text)}; }

class EngineProcessTest : public ::testing::Test {
 protected:
  // One process serves all tests.
  static void SetUpTestSuite() {
    if (testing::HasLlguidance()) engine_ = testing::StartTestEngine().release();
  }
  static void TearDownTestSuite() {
    delete engine_;
    engine_ = nullptr;
  }
  void SetUp() override { LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE(); }

  TokenMask MaskOf(const Constraint& constraint, std::string_view text,
                   std::span<const TokenId> ends = kEnds) {
    TokenMask mask;
    EXPECT_THAT(engine_->Begin(0, constraint, ends, TokensOf(text)), IsOk());
    EXPECT_THAT(engine_->Mask(0, {}, mask), IsOk());
    return mask;
  }

  static CagedConstraintEngine* engine_;
};
CagedConstraintEngine* EngineProcessTest::engine_ = nullptr;

TEST_F(EngineProcessTest, SaysItsVersion) {
  EXPECT_THAT(engine_->version(), StartsWith("llguidance@1.9."));
  EXPECT_THAT(engine_->version(), HasSubstr(" rules@"));
}

TEST_F(EngineProcessTest, SchemasAllowWhatFits) {
  const Constraint named = Schema(kNamed);
  EXPECT_EQ(Walk(*engine_, named, R"({"name": "x"})"), "ok");
  EXPECT_EQ(Walk(*engine_, named, R"({"name":"x","age":-31})"), "ok");
  EXPECT_EQ(Walk(*engine_, named, "{\n  \"name\": \"x\",\n  \"age\": 3\n}"), "ok");
  EXPECT_EQ(Walk(*engine_, named, R"({"age": 3})"), R"({")");
  EXPECT_EQ(Walk(*engine_, named, R"({"name": 3})"), R"({"name": )");
  EXPECT_EQ(Walk(*engine_, named, R"({"name": "x", "age": 0.5})"), R"({"name": "x", "age": 0)");
  EXPECT_EQ(Walk(*engine_, named, R"({"name": "x")"), "end");
  EXPECT_EQ(Walk(*engine_, Schema("true"), "[1, null]"), "ok");
  EXPECT_EQ(Walk(*engine_, {ConstraintKind::kJsonObject, ""}, R"({"a": [1, {}]})"), "ok");
  EXPECT_EQ(Walk(*engine_, {ConstraintKind::kJsonObject, ""}, "[1]"), "");
}

TEST_F(EngineProcessTest, PropertiesComeInTheOrderOfTheSchema) {
  const Constraint ordered = Schema(
      R"({"type": "object", "properties": {"z": {"const": 1}, "a": {"const": 2}},
          "required": ["z", "a"], "additionalProperties": false})");
  EXPECT_EQ(Walk(*engine_, ordered, R"({"z": 1, "a": 2})"), "ok");
  EXPECT_EQ(Walk(*engine_, ordered, R"({"a": 2, "z": 1})"), "{\"");
}

TEST_F(EngineProcessTest, WhiteSpaceIsBounded) {
  const Constraint named = Schema(kNamed);
  EXPECT_EQ(Walk(*engine_, named, R"({  "name": "x"})"), "ok");
  EXPECT_EQ(Walk(*engine_, named, R"({   "name": "x"})"), "{  ");
  EXPECT_EQ(Walk(*engine_, named, "{\n" + std::string(64, ' ') + R"("name": "x"})"), "ok");
  EXPECT_EQ(Walk(*engine_, named, "{\n\n"), "{\n");
  EXPECT_EQ(Walk(*engine_, named, " "), "");
  EXPECT_EQ(Walk(*engine_, named, "{\"name\": \"x\"}\n"), "{\"name\": \"x\"}");
  // The client cannot lift the bound, or make the engine ignore what it does not know.
  EXPECT_EQ(
      Walk(*engine_, Schema(R"({"x-guidance": {"whitespace_pattern": " *"}, "type": "object"})"),
           "{   "),
      "{  ");
  EXPECT_THAT(engine_->Check(Schema(R"({"x-guidance": {"lenient": true}, "uniqueItems": true})")),
              HasError(kInvalid, HasSubstr("uniqueItems")));
}

TEST_F(EngineProcessTest, AWholeOutputCanOnlyEnd) {
  const TokenMask whole = MaskOf(Schema(kNamed), R"({"name": "x"})");
  EXPECT_TRUE(whole.ends_only);
  EXPECT_TRUE(whole.Allows(kEndToken));
  EXPECT_FALSE(whole.Allows(' '));
  const TokenMask half = MaskOf(Schema(kNamed), R"({"name": "x")");
  EXPECT_FALSE(half.ends_only || half.Allows(kEndToken));
  const TokenMask either = MaskOf(Regex("a+"), "a");
  EXPECT_TRUE(either.Allows('a') && either.Allows(kEndToken) && !either.ends_only);
}

TEST_F(EngineProcessTest, EveryEndTokenOfTheRequestCounts) {
  // A letter ends the output where the output is then whole, and nowhere else.
  const std::array<TokenId, 2> ends = {kEndToken, 'b'};
  const TokenMask first = MaskOf(Regex("b?a?b"), "", ends);
  EXPECT_TRUE(first.Allows('a') && first.Allows('b') && !first.Allows(kEndToken));
  const TokenMask inside = MaskOf(Regex("abc"), "a", kEnds);
  EXPECT_TRUE(inside.Allows('b'));
  TokenMask mask;
  ASSERT_THAT(engine_->Begin(0, Regex("abc"), ends, TokensOf("a")), IsOk());
  EXPECT_THAT(engine_->Mask(0, {}, mask), HasError(kInvalid, HasSubstr("no token")));
  const TokenMask whole = MaskOf(Regex("a"), "a", ends);
  EXPECT_TRUE(whole.Allows(kEndToken) && whole.Allows('b') && whole.ends_only);
  ASSERT_THAT(engine_->Begin(0, Regex("a"), {}, TokensOf("a")), IsOk());
  EXPECT_THAT(engine_->Mask(0, {}, mask), HasError(kInvalid, HasSubstr("no token that ends it")));
}

TEST_F(EngineProcessTest, AllSpellingsOfATextAreAllowed) {
  const TokenMask begin = MaskOf(Schema(kNamed), "");
  EXPECT_TRUE(begin.Allows('{') && begin.Allows(kOpenQuoteToken));
  const TokenMask name = MaskOf(Schema(R"({"type": "object", "properties": {"name": {}},
                                           "required": ["name"], "additionalProperties": false})"),
                                "{\"");
  EXPECT_TRUE(name.Allows('n') && name.Allows(kNameToken));
  EXPECT_FALSE(name.Allows('a') || name.Allows(kNoToken) || name.Allows(kSpecialToken));
}

TEST_F(EngineProcessTest, RegularExpressionsMatchTheWholeOutput) {
  EXPECT_EQ(Walk(*engine_, Regex(R"([a-z]{2}/\d+)"), "ab/12"), "ok");
  EXPECT_EQ(Walk(*engine_, Regex(R"([a-z]{2}/\d+)"), "ab/"), "end");
  EXPECT_EQ(Walk(*engine_, Regex("a\nb"), "a\nb"), "ok");
  EXPECT_EQ(Walk(*engine_, Regex("^abc$"), "abc"), "ok");
  EXPECT_EQ(Walk(*engine_, Regex("\xE6\x97\xA5+"), "\xE6\x97\xA5\xE6\x97\xA5"), "ok");
  // Digits are ASCII.
  EXPECT_EQ(Walk(*engine_, Regex(R"(\d)"), "\xD9\xA3"), "");
  EXPECT_EQ(Walk(*engine_, Regex(""), ""), "ok");
}

TEST_F(EngineProcessTest, ChoicesAreTexts) {
  const Constraint choice =
      Choice(R"(["yes", "no", "a\"b\\", "<|end|>", "\u00e9\n", "yesterday"])");
  for (const std::string_view text :
       {"yes", "no", "a\"b\\", "<|end|>", "\xC3\xA9\n", "yesterday"}) {
    EXPECT_EQ(Walk(*engine_, choice, text), "ok");
  }
  EXPECT_EQ(Walk(*engine_, choice, "yest"), "end");
  EXPECT_EQ(Walk(*engine_, choice, "nope"), "no");
}

TEST_F(EngineProcessTest, GrammarsAreLark) {
  const Constraint grammar = Grammar("start: \"a\" item+ // twice\nitem: /[0-9]/ \";\"\n# end");
  EXPECT_EQ(Walk(*engine_, grammar, "a1;2;"), "ok");
  EXPECT_EQ(Walk(*engine_, grammar, "a"), "end");
  // A special token is a token, never its text.
  const TokenMask call = MaskOf(Grammar("start: \"a\" <|call|>"), "a");
  EXPECT_TRUE(call.Allows(kSpecialToken) && !call.Allows('<'));
  // An end token that the grammar asks for is the end.
  const TokenMask end = MaskOf(Grammar("start: \"a\" <|end|>"), "a");
  EXPECT_TRUE(end.Allows(kEndToken) && end.ends_only);
  const TokenMask early = MaskOf(Grammar("start: \"a\" <|end|>"), "");
  EXPECT_FALSE(early.Allows(kEndToken));
}

TEST_F(EngineProcessTest, BadConstraintsGetAReason) {
  const auto expect = [](const Constraint& constraint, std::string_view reason) {
    EXPECT_THAT(engine_->Check(constraint), HasError(kInvalid, HasSubstr(std::string(reason))))
        << constraint.text;
  };
  expect(Regex("(a"), "unclosed group");
  expect(Regex("(?=a)b"), "look-around");
  expect(Schema("{"), "is no JSON");
  expect(Schema("[]"), "expected an object, true or false");
  expect(Schema("false"), "no value fits");
  expect(Schema(R"({"minLength": NaN})"), "NaN is no JSON");
  expect(Schema(R"({"uniqueItems": true})"), "Unimplemented keys: [\"uniqueItems\"]");
  expect(Schema(R"({"type": "integer", "minimum": 5, "maximum": 3})"), "");
  expect(Choice("[]"), "expected a list of texts");
  expect(Choice(R"(["a", 1])"), "expected a list of texts");
  expect(Grammar("start: foo"), "unknown name: \"foo\"");
  expect(Grammar("root ::= \"a\""), "expected a Lark grammar");
  expect({static_cast<ConstraintKind>('Z'), ""}, "unknown kind");
  // The engine's own lines around a text are not shown.
  EXPECT_THAT(Message(engine_->Check(Regex("(a"))), ::testing::Not(HasSubstr("no_forcing")));
  EXPECT_EQ(Walk(*engine_, Regex("a"), "a"), "ok");
}

TEST_F(EngineProcessTest, SlotsAreApart) {
  TokenMask mask;
  ASSERT_THAT(engine_->Begin(1, Regex("ab"), kEnds, {}), IsOk());
  ASSERT_THAT(engine_->Begin(2, Regex("cd"), kEnds, {}), IsOk());
  ASSERT_THAT(engine_->Begin(3, Regex("ab"), kEnds, TokensOf("a")), IsOk());
  ASSERT_THAT(engine_->Mask(2, TokensOf("c"), mask), IsOk());
  EXPECT_TRUE(mask.Allows('d'));
  ASSERT_THAT(engine_->Mask(1, {}, mask), IsOk());
  EXPECT_TRUE(mask.Allows('a') && !mask.Allows('b'));
  ASSERT_THAT(engine_->Mask(3, {}, mask), IsOk());
  EXPECT_TRUE(mask.Allows('b'));
  // A wrong token is the fault of its slot alone.
  EXPECT_THAT(engine_->Mask(1, TokensOf("z"), mask), HasError(kInvalid, HasSubstr("")));
  ASSERT_THAT(engine_->Mask(3, TokensOf("b"), mask), IsOk());
  EXPECT_TRUE(mask.ends_only);
  EXPECT_THAT(engine_->Release(3), IsOk());
  EXPECT_THAT(engine_->Mask(3, {}, mask), HasError(kInvalid, HasSubstr("")));
  EXPECT_THAT(engine_->Release(3), IsOk());
}

TEST_F(EngineProcessTest, AMaskDependsOnTheOutputAlone) {
  // Token by token, at once, and after a restart.
  const std::string text = R"({"name": "lots", "age": 12)";
  TokenMask stepwise;
  ASSERT_THAT(engine_->Begin(4, Schema(kNamed), kEnds, {}), IsOk());
  ASSERT_THAT(engine_->Mask(4, {}, stepwise), IsOk());
  for (const TokenId token : TokensOf(text)) {
    ASSERT_THAT(engine_->Mask(4, {&token, 1}, stepwise), IsOk());
  }
  EXPECT_EQ(MaskOf(Schema(kNamed), text).words, stepwise.words);
  ASSERT_THAT(engine_->Restart(), IsOk());
  EXPECT_EQ(MaskOf(Schema(kNamed), text).words, stepwise.words);
}

}  // namespace
}  // namespace lockstep
