// What the constraint engine allows by the grammars of forced calls, the parser of outputs turns
// into calls that fit. Outputs are random walks through the engine's masks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/status.h"
#include "router/calls/grammar/call_grammar.h"
#include "router/calls/output_format_table.h"
#include "router/calls/output_parser.h"
#include "tests/common/constraints/test_engine.h"
#include "tests/router/calls/grammar/marker_tokenizer.h"
#include "tests/router/calls/grammar/schema_judge.h"

namespace lockstep::router {
namespace {

using nlohmann::json;
using Reasoning = CallGrammarOptions::Reasoning;

constexpr size_t kMaxTokens = 400;
#ifdef LOCKSTEP_SANITIZED
constexpr int kWalks = 6;
constexpr int kSchemas = 20;
#else
constexpr int kWalks = 10;
constexpr int kSchemas = 20;
#endif
constexpr char kTools[] = R"([
  {"type": "function", "function": {"name": "find-it", "parameters": {"type": "object",
    "properties": {
      "what": {"type": "string", "minLength": 1, "maxLength": 6},
      "mode": {"enum": ["fast", "s\"low\\", "a ::= b"]},
      "limit": {"type": "integer", "minimum": 0, "maximum": 20},
      "exact": {"type": "boolean", "description": "or not"},
      "tags": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 3}},
      "note": {"type": ["string", "null"], "maxLength": 5}},
    "required": ["what", "limit"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "now"}},
  {"type": "function", "function": {"name": "move", "parameters": {"type": "object",
    "properties": {
      "to": {"$ref": "#/$defs/Place"},
      "id": {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "integer"},
                       {"$ref": "#/$defs/Place"}]},
      "level": {"anyOf": [{"type": "integer", "minimum": 3, "maximum": 12},
                          {"type": "string", "maxLength": 3}, {"type": "boolean"}]},
      "kind": {"enum": ["x", "true", null, 5]}},
    "required": ["to"], "additionalProperties": false,
    "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "integer", "maximum": 99,
      "minimum": 0}}, "required": ["x"], "additionalProperties": false}}}}}
])";

struct WalkCase {
  CallGrammarOptions options;
  std::string name;  // of the only tool; empty: all
  bool split_reasoning = true;
  int num_walks = kWalks;
};

struct Call {
  std::string name;
  std::string arguments;
};

// What the parser finds.
struct Found {
  std::vector<Call> calls;
  std::string content;
  std::string reasoning;
  uint32_t num_broken = 0;
};

Found ParseOutput(const OutputFormat& format, const ToolList& tools, const WalkCase& walk,
                  const std::vector<TokenId>& tokens, const Tokenizer& tokenizer) {
  OutputParser parser(format, tools,
                      {.parse_calls = true,
                       .split_reasoning = walk.split_reasoning,
                       .begins_in_reasoning = walk.options.reasoning == Reasoning::kOpen});
  std::vector<OutputPart> parts;
  for (const TokenId token : tokens) {
    parser.Push(tokenizer.TokenBytes(token), tokenizer.IsSpecial(token), parts);
  }
  parser.Finish(parts);
  Found found;
  for (const OutputPart& part : parts) {
    if (part.kind == OutputPart::Kind::kContent) found.content += part.text;
    if (part.kind == OutputPart::Kind::kReasoning) found.reasoning += part.text;
    if (part.kind == OutputPart::Kind::kCallBegin) found.calls.push_back({part.text, ""});
    if (part.kind == OutputPart::Kind::kCallArguments) found.calls.back().arguments += part.text;
  }
  found.num_broken = parser.num_broken_calls();
  EXPECT_EQ(parser.num_whole_calls(), found.calls.size());
  return found;
}

// An engine, and the tokenizer whose vocabulary it has.
struct Side {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<CagedConstraintEngine> engine;
};

// By the names of the tools.
std::map<std::string, json> SchemasOf(const std::string& tools) {
  const json none = {{"properties", json::object()}, {"additionalProperties", false}};
  std::map<std::string, json> schemas;
  for (const json& tool : json::parse(tools)) {
    const json& function = tool["function"];
    schemas[function["name"]] = function.value("parameters", none);
  }
  return schemas;
}

Side MakeSide(const std::vector<std::string>& markers) {
  Side side{.tokenizer = MarkerTokenizer(markers), .engine = nullptr};
  auto engine =
      CagedConstraintEngine::Start(testing::TestEngineConfig(), VocabularyOf(*side.tokenizer));
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (engine.ok()) side.engine = *std::move(engine);
  return side;
}

// Parameters: the format, and whether its markers are special tokens.
class CallGrammarWalkTest : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  static void SetUpTestSuite() {
    if (!testing::HasLlguidance()) return;
    plain_ = new Side(MakeSide({}));
    special_ = new Side(MakeSide(MarkerTokens()));
  }
  static void TearDownTestSuite() {
    delete plain_;
    delete special_;
    plain_ = special_ = nullptr;
  }
  void SetUp() override { LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE(); }

  const OutputFormat& format() const { return **FindOutputFormat(std::get<0>(GetParam())); }
  const Side& side() const { return std::get<1>(GetParam()) ? *special_ : *plain_; }
  TokenId end_token() const { return *side().tokenizer->FindToken("<s>"); }

  // Texts that a walk would hardly find by itself: markers, and words that may mean another value.
  std::vector<std::string> Spellings() const {
    const OutputFormat& f = format();
    std::vector<std::string> texts = {"\"", "null", "None", "true", "True", "12", "-3", "{", "[1]"};
    for (const std::string_view text :
         {f.think_open, f.think_end, f.tags.block_open, f.tags.call_open, f.tags.block_end,
          f.tags.value_end, f.tags.call_end, f.tags.key_open, f.frame[0], f.frame[4]}) {
      if (!text.empty()) texts.emplace_back(text);
    }
    // Most texts end with these.
    for (const std::string_view text : {f.think_end, f.tags.value_end}) {
      for (int i = 0; i < 4 && !text.empty(); ++i) texts.emplace_back(text);
    }
    // A line ends the value of some formats.
    for (size_t i = texts.size(); i-- > 0;) texts.push_back("\n" + texts[i]);
    return texts;
  }

  TokenId Choose(const TokenMask& mask) {
    if (mask.Allows(end_token()) && random_() % 2 == 0) return end_token();
    if (spelling_.empty() && random_() % 4 == 0) {
      const std::vector<std::string> spellings = Spellings();
      spelling_ = spellings[random_() % spellings.size()];
    }
    if (!spelling_.empty()) {
      const TokenId next = static_cast<unsigned char>(spelling_[0]);
      spelling_.erase(0, 1);
      if (mask.Allows(next)) return next;
      spelling_.clear();
    }
    std::vector<TokenId> allowed;
    std::vector<TokenId> markers;
    for (TokenId id = 0; id < side().tokenizer->vocab_size(); ++id) {
      if (id == end_token() || !mask.Allows(id)) continue;
      // The judge's numbers have no exponent of a thousand.
      if (id == 'e' || id == 'E') continue;
      allowed.push_back(id);
      if (side().tokenizer->IsSpecial(id)) markers.push_back(id);
    }
    if (!markers.empty() && random_() % 4 == 0) return markers[random_() % markers.size()];
    if (allowed.empty()) return mask.Allows('e') ? 'e' : end_token();
    return allowed[random_() % allowed.size()];
  }

  // The tokens of one output, the end token at its end unless it is too long.
  std::vector<TokenId> RandomWalk(const Constraint& constraint) {
    constexpr SlotId kSlot = 1;
    const std::array<TokenId, 1> ends = {end_token()};
    std::vector<TokenId> tokens;
    std::vector<TokenId> last;
    std::string text;
    spelling_.clear();
    TokenMask mask;
    const absl::Status begun = side().engine->Begin(kSlot, constraint, ends, {});
    EXPECT_TRUE(begun.ok()) << begun << "\n" << constraint.text;
    while (begun.ok() && tokens.size() < kMaxTokens) {
      const absl::Status status = side().engine->Mask(kSlot, last, mask);
      EXPECT_TRUE(status.ok()) << status << "\nbehind " << text;
      if (!status.ok()) break;
      last = {Choose(mask)};
      tokens.push_back(last[0]);
      if (last[0] == end_token()) break;
      text += side().tokenizer->TokenBytes(last[0]);
    }
    return tokens;
  }

  void WalkAndJudge(const WalkCase& walk) {
    const absl::StatusOr<std::string> grammar = CallGrammar(
        format(), CallableTools(tools_, walk.name), known_, walk.options, *side().tokenizer);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    const Constraint constraint{.kind = ConstraintKind::kGrammar, .text = *grammar};
    if (!side().engine->Check(constraint).ok()) {
      refused_.push_back(tools_);
      return;
    }
    ++num_grammars_;
    for (int round = 0; round < walk.num_walks && !HasFailure(); ++round) {
      std::vector<TokenId> tokens = RandomWalk(constraint);
      SCOPED_TRACE(side().tokenizer->Decode(tokens, /*skip_special_tokens=*/false));
      ++num_walks_;
      ASSERT_FALSE(tokens.empty());
      if (tokens.back() != end_token()) continue;
      ++num_ended_;
      tokens.pop_back();
      Judge(ParseOutput(format(), known_, walk, tokens, *side().tokenizer), walk);
    }
  }

  void Judge(const Found& found, const WalkCase& walk) {
    EXPECT_EQ(found.num_broken, 0u);
    EXPECT_GE(found.calls.size(), 1u);
    most_calls_ = std::max(most_calls_, found.calls.size());
    if (walk.options.single) {
      EXPECT_EQ(found.calls.size(), 1u);
    }
    if (walk.split_reasoning) {
      EXPECT_EQ(found.content, "");
    }
    for (const Call& call : found.calls) {
      ++num_calls_of_[call.name];
      ASSERT_TRUE(schemas_.contains(call.name)) << call.name;
      if (!walk.name.empty()) {
        EXPECT_EQ(call.name, walk.name);
      }
      const json arguments = json::parse(call.arguments, nullptr, false);
      ASSERT_TRUE(arguments.is_object()) << call.arguments;
      const json& schema = schemas_[call.name];
      EXPECT_EQ(WhyUnfit(arguments, schema, schema), "") << call.arguments;
    }
  }

  std::string tools_ = kTools;
  ToolList known_ = *ToolList::Parse(kTools);
  std::map<std::string, json> schemas_ = SchemasOf(kTools);
  std::vector<std::string> refused_;  // lists of tools
  int num_grammars_ = 0;
  int num_walks_ = 0;
  int num_ended_ = 0;
  size_t most_calls_ = 0;
  std::map<std::string, int> num_calls_of_;
  std::mt19937 random_{7};
  std::string spelling_;  // what the walk tries to write
  static Side* plain_;
  static Side* special_;
};
Side* CallGrammarWalkTest::plain_ = nullptr;
Side* CallGrammarWalkTest::special_ = nullptr;

TEST_P(CallGrammarWalkTest, EveryOutputIsCallsThatFit) {
  for (const bool single : {false, true}) {
    for (const Reasoning reasoning : {Reasoning::kNone, Reasoning::kOptional, Reasoning::kOpen}) {
      if (reasoning != Reasoning::kNone && !HasReasoning(format())) continue;
      for (const std::string name : {"", "move"}) {
        const bool split_reasoning = random_() % 3 != 0;
        ASSERT_NO_FATAL_FAILURE(WalkAndJudge({.options = {.single = single, .reasoning = reasoning},
                                              .name = name,
                                              .split_reasoning = split_reasoning,
                                              .num_walks = kWalks}));
      }
    }
  }
  EXPECT_EQ(num_grammars_, HasReasoning(format()) ? 12 : 4);
  EXPECT_GT(num_ended_ * 2, num_walks_) << num_ended_ << " of " << num_walks_ << " walks ended";
  EXPECT_EQ(num_calls_of_.size(), 3u);
  // The token behind a call of Harmony ends the output.
  EXPECT_EQ(most_calls_ > 1, format().style != CallStyle::kHarmony);
}

// Schemas of values, alone and as alternatives.
class ValueSchemas {
 public:
  explicit ValueSchemas(std::mt19937& random) : random_(random) {}

  json Any() {
    if (random_() % 3 != 0) return One();
    json choices = json::array({One(), One()});
    if (random_() % 3 == 0) choices.push_back(One());
    return {{"anyOf", choices}};
  }

 private:
  json One() {
    const json schemas[] = {
        {{"type", "string"}},
        {{"type", "string"}, {"minLength", 2}, {"maxLength", 4}},
        {{"type", "integer"}},
        {{"type", "integer"}, {"minimum", -5}, {"maximum", 50}},
        {{"type", "number"}, {"maximum", 3}},
        {{"type", "number"}},
        {{"type", "boolean"}},
        {{"type", "null"}},
        {{"enum", {"a", 12, "12", nullptr, true, "null", "x\ny"}}},
        {{"const", "True"}},
        {{"type", "array"}, {"items", {{"type", "integer"}}}, {"maxItems", 2}},
        {{"type", "object"},
         {"properties", {{"k", {{"type", "string"}, {"maxLength", 2}}}}},
         {"additionalProperties", false}},
        {{"type", {"string", "integer", "null"}}, {"maxLength", 3}},
        {{"type", {"string", "object"}}, {"additionalProperties", false}},
        {{"type", {"boolean", "array"}}, {"maxItems", 0}},
        {{"oneOf",
          {{{"type", "string"}, {"maxLength", 4}}, {{"type", "number"}}, {{"type", "boolean"}}}}},
        {{"oneOf",
          {{{"const", "a"}},
           {{"type", "integer"}, {"minimum", 5}, {"maximum", 7}},
           {{"type", "null"}}}}},
        {{"enum", {nullptr, json::object(), "b"}}},
        json::object(),
    };
    return schemas[random_() % std::size(schemas)];
  }

  std::mt19937& random_;
};

TEST_P(CallGrammarWalkTest, ValuesOfManySchemasFit) {
  ValueSchemas values(random_);
  for (int round = 0; round < kSchemas && !HasFailure(); ++round) {
    const json parameters = {{"type", "object"},
                             {"properties", {{"p", values.Any()}, {"q", values.Any()}}},
                             {"required", {"p"}},
                             {"additionalProperties", false}};
    const json tool = {{"type", "function"},
                       {"function", {{"name", "f"}, {"parameters", parameters}}}};
    tools_ = json::array({tool}).dump();
    SCOPED_TRACE(tools_);
    known_ = *ToolList::Parse(tools_);
    schemas_ = SchemasOf(tools_);
    ASSERT_NO_FATAL_FAILURE(WalkAndJudge(
        {.options = {.single = true}, .name = "", .split_reasoning = true, .num_walks = 6}));
  }
  EXPECT_THAT(refused_, ::testing::IsEmpty());
  EXPECT_EQ(num_grammars_, kSchemas);
  EXPECT_GT(num_ended_ * 2, num_walks_) << num_ended_ << " of " << num_walks_ << " walks ended";
}

INSTANTIATE_TEST_SUITE_P(All, CallGrammarWalkTest,
                         ::testing::Combine(::testing::ValuesIn([] {
                                              std::vector<std::string> names;
                                              for (const OutputFormat& format : OutputFormats()) {
                                                if (CanForceCalls(format))
                                                  names.emplace_back(NameOf(format));
                                              }
                                              return names;
                                            }()),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) ? "_special" : "_plain");
                         });

}  // namespace
}  // namespace lockstep::router
