// What the constraint engine allows by the grammars of forced calls, the parser of outputs turns
// into calls that fit. Outputs are random walks through the engine's masks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

constexpr size_t kMaxTokens = 600;
constexpr int kWalks = 12;
constexpr char kTools[] = R"([
  {"type": "function", "function": {"name": "find-it", "parameters": {"type": "object",
    "properties": {
      "what": {"type": "string", "minLength": 1, "maxLength": 6, "description": "a ::= b"},
      "mode": {"enum": ["fast", "s\"low\\", "a b"]},
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
  bool split_reasoning = true;
};

// An engine, and the tokenizer whose vocabulary it has.
struct Side {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<CagedConstraintEngine> engine;
};

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

  // Texts that a walk would hardly find by itself.
  std::vector<std::string> Spellings() const {
    const OutputFormat& f = format();
    std::vector<std::string> texts;
    for (const std::string_view text :
         {f.think_end, f.tags.block_open, f.tags.block_end, f.tags.value_end, f.tags.call_end,
          f.tags.key_open, f.frame[4]}) {
      if (!text.empty()) texts.emplace_back(text);
    }
    texts.emplace_back("\"");
    return texts;
  }

  TokenId Choose(const TokenMask& mask, const std::string& text) {
    if (mask.Allows(end_token()) && random_() % 2 == 0) return end_token();
    // Goes on with a spelling that has begun, or begins one.
    if (random_() % 8 != 0) {
      for (const std::string& spelling : Spellings()) {
        for (size_t size = spelling.size() - 1; size > 0; --size) {
          const TokenId next = static_cast<unsigned char>(spelling[size]);
          if (text.ends_with(std::string_view(spelling).substr(0, size)) && mask.Allows(next)) {
            return next;
          }
        }
      }
    }
    if (random_() % 6 == 0) {
      const std::vector<std::string> spellings = Spellings();
      const std::string& spelling = spellings[random_() % spellings.size()];
      const TokenId next = static_cast<unsigned char>(spelling[0]);
      if (mask.Allows(next)) return next;
    }
    std::vector<TokenId> allowed;
    std::vector<TokenId> markers;
    for (TokenId id = 0; id < side().tokenizer->vocab_size(); ++id) {
      if (id == end_token() || !mask.Allows(id)) continue;
      allowed.push_back(id);
      if (side().tokenizer->IsSpecial(id)) markers.push_back(id);
    }
    if (!markers.empty() && random_() % 4 == 0) return markers[random_() % markers.size()];
    return allowed.empty() ? end_token() : allowed[random_() % allowed.size()];
  }

  // The tokens of one output, the end token at its end unless it is too long.
  std::vector<TokenId> RandomWalk(const Constraint& constraint) {
    constexpr SlotId kSlot = 1;
    const std::array<TokenId, 1> ends = {end_token()};
    std::vector<TokenId> tokens;
    std::vector<TokenId> last;
    std::string text;
    TokenMask mask;
    const absl::Status begun = side().engine->Begin(kSlot, constraint, ends, {});
    EXPECT_TRUE(begun.ok()) << begun << "\n" << constraint.text;
    while (begun.ok() && tokens.size() < kMaxTokens) {
      const absl::Status status = side().engine->Mask(kSlot, last, mask);
      EXPECT_TRUE(status.ok()) << status << "\nbehind " << text;
      if (!status.ok()) break;
      last = {Choose(mask, text)};
      tokens.push_back(last[0]);
      if (last[0] == end_token()) break;
      text += side().tokenizer->TokenBytes(last[0]);
    }
    return tokens;
  }

  std::mt19937 random_{7};
  static Side* plain_;
  static Side* special_;
};
Side* CallGrammarWalkTest::plain_ = nullptr;
Side* CallGrammarWalkTest::special_ = nullptr;

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

std::string TextOf(const std::vector<TokenId>& tokens, const Tokenizer& tokenizer) {
  return tokenizer.Decode(tokens, /*skip_special_tokens=*/false);
}

TEST_P(CallGrammarWalkTest, EveryOutputIsCallsThatFit) {
  const ToolList known = *ToolList::Parse(kTools);
  std::map<std::string, json> schemas;
  for (const json& tool : json::parse(kTools)) {
    const json& function = tool["function"];
    schemas[function["name"]] = function.value(
        "parameters", json({{"properties", json::object()}, {"additionalProperties", false}}));
  }
  int num_ended = 0;
  int num_walks = 0;
  size_t most_calls = 0;
  std::map<std::string, int> num_calls_of;
  for (const bool single : {false, true}) {
    for (const Reasoning reasoning : {Reasoning::kNone, Reasoning::kOptional, Reasoning::kOpen}) {
      if (reasoning != Reasoning::kNone && !HasReasoning(format())) continue;
      for (const std::string name : {"", "move"}) {
        const WalkCase walk{.options = {.single = single, .reasoning = reasoning},
                            .split_reasoning = random_() % 3 != 0};
        const absl::StatusOr<std::string> grammar = CallGrammar(
            format(), CallableTools(kTools, name), known, walk.options, *side().tokenizer);
        ASSERT_TRUE(grammar.ok()) << grammar.status();
        const Constraint constraint{.kind = ConstraintKind::kGrammar, .text = *grammar};
        for (int round = 0; round < kWalks && !HasFailure(); ++round) {
          std::vector<TokenId> tokens = RandomWalk(constraint);
          const std::string text = TextOf(tokens, *side().tokenizer);
          SCOPED_TRACE(text);
          ++num_walks;
          ASSERT_FALSE(tokens.empty());
          if (tokens.back() != end_token()) continue;
          ++num_ended;
          tokens.pop_back();
          const Found found = ParseOutput(format(), known, walk, tokens, *side().tokenizer);
          EXPECT_EQ(found.num_broken, 0u);
          ASSERT_GE(found.calls.size(), 1u);
          if (single) {
            EXPECT_EQ(found.calls.size(), 1u);
          }
          most_calls = std::max(most_calls, found.calls.size());
          if (walk.split_reasoning) {
            EXPECT_EQ(found.content, "");
          }
          for (const Call& call : found.calls) {
            ASSERT_TRUE(schemas.contains(call.name)) << call.name;
            if (!name.empty()) {
              EXPECT_EQ(call.name, name);
            }
            const json arguments = json::parse(call.arguments, nullptr, false);
            ASSERT_TRUE(arguments.is_object()) << call.arguments;
            EXPECT_EQ(WhyUnfit(arguments, schemas[call.name], schemas[call.name]), "")
                << call.arguments;
            ++num_calls_of[call.name];
          }
        }
      }
    }
  }
  EXPECT_GT(num_ended * 2, num_walks) << num_ended << " of " << num_walks << " walks ended";
  if (!HasFailure()) {
    EXPECT_EQ(num_calls_of.size(), 3u);
  }
  // The token behind a call of Harmony ends the output.
  if (format().style != CallStyle::kHarmony) {
    EXPECT_GT(most_calls, 1u);
  }
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
