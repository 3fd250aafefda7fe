// Outputs of a model that knows nothing, under constraints, through the real engine: whatever it
// samples must fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "tests/common/constraints/test_engine.h"
#include "tests/worker/steps/step_messages.h"
#include "tests/worker/steps/test_worker.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::BlockRange;
using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::kEndToken;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::TestWorker;
using nlohmann::json;

constexpr uint32_t kMaxNew = 200;
constexpr uint32_t kNumPrompt = 3;
constexpr char kPerson[] = R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 8},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "tags": {"type": "array", "items": {"enum": ["a", "b", 3, null]}, "maxItems": 3},
    "home": {"anyOf": [{"type": "null"},
                       {"type": "object", "properties": {"street": {"type": "boolean"}},
                        "required": ["street"], "additionalProperties": false}]}},
    "required": ["name", "age", "tags", "home"], "additionalProperties": false})";

// Every kind of value is bounded, so outputs end by themselves.
bool FitsPerson(const json& value) {
  if (!value.is_object() || value.size() != 4) return false;
  const json& name = value.at("name");
  const json& age = value.at("age");
  const json& tags = value.at("tags");
  const json& home = value.at("home");
  if (!name.is_string() || !age.is_number_integer() || age < 0 || age > 150) return false;
  if (!tags.is_array() || tags.size() > 3) return false;
  const std::set<json> allowed = {"a", "b", 3, nullptr};
  for (const json& tag : tags) {
    if (!allowed.contains(tag)) return false;
  }
  return home.is_null() || (home.size() == 1 && home.at("street").is_boolean());
}

class ConstrainedOutputsTest : public ::testing::TestWithParam<float> {
 protected:
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE();
    engine_ = testing::StartTestEngine();
    FakeModelOptions options;
    options.vocab_size = static_cast<uint32_t>(testing::TestVocabulary().size());
    options.max_context_tokens = 512;
    options.num_blocks = 256;
    worker_ = std::make_unique<TestWorker>(options, ExecutorLimits{.max_slots = 4}, nullptr,
                                           engine_.get());
  }

  v1::StartedSlot Started(v1::SlotConstraint::Kind kind, const std::string& text, uint64_t seed) {
    v1::StartedSlot started =
        MakeStarted(1, MakeTokens(kNumPrompt, 256, seed), BlockRange(0, 80), kNumPrompt + kMaxNew);
    started.mutable_sampling()->set_temperature(GetParam());
    started.mutable_sampling()->set_seed(seed);
    started.mutable_sampling()->add_stop_token_ids(kEndToken);
    started.mutable_constraint()->set_kind(kind);
    started.mutable_constraint()->set_text(text);
    return started;
  }

  struct Output {
    std::string text;
    bool whole = false;  // it ended with a stop id
    std::vector<TokenId> tokens;
  };
  // `disturb(n)` is called before token n.
  Output Generate(v1::StartedSlot started, const std::function<void(size_t)>& disturb = {}) {
    Output output;
    v1::StepResult result = worker_->Prefill(started);
    for (;;) {
      EXPECT_EQ(result.errors_size(), 0) << result.errors(0).message();
      if (result.token_ids_size() == 0) return output;
      output.tokens.push_back(result.token_ids(0));
      if (result.stopped_slots_size() > 0) {
        output.whole = result.stop_causes(0) == v1::STOP_CAUSE_TOKEN;
        if (!output.whole) output.text += vocabulary_[output.tokens.back()].bytes;
        return output;
      }
      output.text += vocabulary_[output.tokens.back()].bytes;
      if (disturb) disturb(output.tokens.size());
      result = worker_->Decode(1);
    }
  }

  const std::vector<VocabularyToken> vocabulary_ = testing::TestVocabulary();
  std::unique_ptr<CagedConstraintEngine> engine_;
  std::unique_ptr<TestWorker> worker_;
};

TEST_P(ConstrainedOutputsTest, SchemasHold) {
  int num_whole = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Output output = Generate(Started(v1::SlotConstraint::JSON_SCHEMA, kPerson, seed));
    SCOPED_TRACE(output.text);
    if (!output.whole) continue;
    ++num_whole;
    const json value = json::parse(output.text, nullptr, false);
    ASSERT_FALSE(value.is_discarded());
    EXPECT_TRUE(FitsPerson(value));
  }
  EXPECT_GE(num_whole, 10);
}

TEST_P(ConstrainedOutputsTest, RegularExpressionsHold) {
  const std::string pattern = R"([A-C]{2,5}-\d{1,4}(foo|bar)?)";
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Output output = Generate(Started(v1::SlotConstraint::REGEX, pattern, seed));
    EXPECT_TRUE(output.whole);
    EXPECT_TRUE(std::regex_match(output.text, std::regex(pattern))) << output.text;
  }
}

TEST_P(ConstrainedOutputsTest, ChoicesHold) {
  const std::set<std::string> choices = {"yes", "no", "name of it", "\xC3\xA9"};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Output output = Generate(
        Started(v1::SlotConstraint::CHOICE, R"(["yes", "no", "name of it", "\u00e9"])", seed));
    EXPECT_TRUE(output.whole);
    EXPECT_TRUE(choices.contains(output.text)) << output.text;
  }
}

TEST_P(ConstrainedOutputsTest, GrammarsAndObjectsHold) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Output sum = Generate(
        Started(v1::SlotConstraint::GRAMMAR, "start: n (\"+\" n){1,3}\nn: /[0-9]{1,3}/", seed));
    EXPECT_TRUE(sum.whole);
    EXPECT_TRUE(std::regex_match(sum.text, std::regex(R"(\d{1,3}(\+\d{1,3}){1,3})"))) << sum.text;
    const Output object = Generate(Started(v1::SlotConstraint::JSON_OBJECT, "", seed));
    EXPECT_EQ(object.text[0], '{');
    // The parser here refuses numbers that are too large for a double.
    const std::string text = std::regex_replace(object.text, std::regex("[eE][-+]?[0-9]+"), "");
    if (object.whole) {
      EXPECT_TRUE(json::parse(text, nullptr, false).is_object()) << object.text;
    }
  }
}

TEST_P(ConstrainedOutputsTest, AKillInTheMiddleChangesNothing) {
  const v1::StartedSlot started = Started(v1::SlotConstraint::JSON_SCHEMA, kPerson, 5);
  const Output undisturbed = Generate(started);
  const Output killed = Generate(started, [this](size_t n) {
    if (n % 9 == 0) kill(engine_->pid(), SIGKILL);
  });
  EXPECT_EQ(killed.tokens, undisturbed.tokens);
}

TEST_P(ConstrainedOutputsTest, ARestartInAnotherPlaceChangesNothing) {
  const v1::StartedSlot started = Started(v1::SlotConstraint::JSON_SCHEMA, kPerson, 7);
  const Output undisturbed = Generate(started);
  ASSERT_GT(undisturbed.tokens.size(), 12u);
  // What a router sends after a preemption: known tokens, nothing computed.
  v1::StartedSlot resumed = started;
  const std::vector<TokenId> begun(undisturbed.tokens.begin(), undisturbed.tokens.begin() + 11);
  for (const TokenId token : begun) resumed.add_known_tokens(token);
  std::vector<TokenId> tokens = begun;
  const Output rest = Generate(resumed);
  tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(tokens, undisturbed.tokens);
}

// A test that cannot fail proves nothing: without the mask the same sequences do not fit.
TEST_P(ConstrainedOutputsTest, WithoutMasksNothingFits) {
  v1::StartedSlot started = Started(v1::SlotConstraint::JSON_SCHEMA, kPerson, 5);
  started.clear_constraint();
  const Output output = Generate(started);
  const json value = json::parse(output.text, nullptr, false);
  EXPECT_TRUE(value.is_discarded() || !FitsPerson(value));
}

INSTANTIATE_TEST_SUITE_P(Temperatures, ConstrainedOutputsTest, ::testing::Values(0.0f, 1.5f));

}  // namespace
}  // namespace lockstep::worker
