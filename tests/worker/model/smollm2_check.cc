#include "tests/worker/model/smollm2_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/worker/model/golden_check.h"
#include "tests/worker/model/sequence_runner.h"

namespace lockstep::worker {
namespace {

constexpr size_t kNumPositions = 1280;
constexpr double kMinDecided = 0.9;

// The errors of positions that have the same number of logits, taken together.
class Errors {
 public:
  void Add(const ErrorSummary& error) { Add(error.max, error.rms); }
  void Add(double max, double rms) {
    max_ = std::max(max_, max);
    sum_of_squares_ += rms * rms;
    ++num_positions_;
  }

  double max() const { return max_; }
  double rms() const { return std::sqrt(sum_of_squares_ / static_cast<double>(num_positions_)); }

 private:
  double max_ = 0.0;
  double sum_of_squares_ = 0.0;
  size_t num_positions_ = 0;
};

Errors ErrorsOfPlainBf16(const SmolLm2Reference& reference) {
  Errors errors;
  for (const ReferencePrompt& prompt : reference.prompts) {
    for (const ReferencePosition& position : prompt.positions) {
      errors.Add(position.bf16_max_error, position.bf16_rms_error);
    }
  }
  return errors;
}

// Whether the best logit stays the best when every logit is off by `max_error`, or by as much as in
// the plain bf16 run.
bool IsDecided(const ReferencePosition& reference, double max_error) {
  return reference.best_logit - reference.second_logit >
         2.0 * std::max<double>(max_error, reference.bf16_max_error);
}

// Leading tokens of the texts that stay the same with errors as large as they may be.
size_t NumTokensDecidedInAnyCase(const SmolLm2Reference& reference) {
  size_t num_tokens = 0;
  for (const ReferencePrompt& prompt : reference.prompts) {
    const auto undecided =
        std::find_if(prompt.positions.begin(), prompt.positions.end(), [](const auto& position) {
          return !IsDecided(position, kErrorFactor * position.bf16_max_error);
        });
    num_tokens += static_cast<size_t>(undecided - prompt.positions.begin());
  }
  return num_tokens;
}

// In the test's output and in its report.
void Report(const std::string& what, double value) {
  const std::string text = std::to_string(value);
  std::printf("%s: %s\n", what.c_str(), text.c_str());
  ::testing::Test::RecordProperty(what, text);
}

}  // namespace

SmolLm2Check::SmolLm2Check(ForwardModel& model)
    : model_(model), reference_(ReadSmolLm2Reference("tests/golden/smollm2")) {
  size_t num_positions = 0;
  for (const ReferencePrompt& prompt : reference_.prompts) {
    scores_.push_back(Score(LogitsOf(model_, prompt), prompt));
    num_positions += scores_.back().size();
  }
  EXPECT_EQ(num_positions, kNumPositions);
}

std::vector<float> SmolLm2Check::LogitsOf(ForwardModel& model,
                                          const ReferencePrompt& prompt) const {
  std::vector<TokenId> tokens = prompt.prompt;
  tokens.insert(tokens.end(), prompt.continuation.begin(), prompt.continuation.end() - 1);
  std::vector<float> logits =
      SequenceRunner(model, tokens).RunInStepsOf(static_cast<uint32_t>(tokens.size()));
  EXPECT_TRUE(IsFinite(logits)) << prompt.name;
  const size_t first_row = prompt.prompt.size() - 1;
  logits.erase(logits.begin(),
               logits.begin() + static_cast<ptrdiff_t>(first_row * model.info().vocab_size));
  return logits;
}

std::vector<SmolLm2Check::Scored> SmolLm2Check::Score(std::span<const float> logits,
                                                      const ReferencePrompt& prompt) const {
  const size_t vocab_size = model_.info().vocab_size;
  std::vector<Scored> scores;
  for (size_t i = 0; i < prompt.positions.size(); ++i) {
    const std::span<const float> row = logits.subspan(i * vocab_size, vocab_size);
    std::vector<float> subset;
    for (const TokenId id : reference_.subset_ids) subset.push_back(row[id]);
    scores.push_back({.best = BestToken(row),
                      .error = SummariseError(subset, prompt.positions[i].subset_logits)});
  }
  return scores;
}

void SmolLm2Check::ExpectErrorWithinTwiceThatOfPlainBf16() const {
  Errors errors;
  for (const std::vector<Scored>& scores : scores_) {
    for (const Scored& scored : scores) errors.Add(scored.error);
  }
  const Errors bf16 = ErrorsOfPlainBf16(reference_);
  EXPECT_LE(errors.rms(), kErrorFactor * bf16.rms());
  EXPECT_LE(errors.max(), kErrorFactor * bf16.max());
  Report("rms_error", errors.rms());
  Report("max_error", errors.max());
  Report("bf16_rms_error", bf16.rms());
  Report("bf16_max_error", bf16.max());
}

void SmolLm2Check::ExpectReferencesBestTokenWhereItIsDecided() const {
  size_t num_decided = 0;
  for (size_t p = 0; p < scores_.size(); ++p) {
    const ReferencePrompt& prompt = reference_.prompts[p];
    for (size_t i = 0; i < scores_[p].size(); ++i) {
      const Scored& scored = scores_[p][i];
      if (!IsDecided(prompt.positions[i], scored.error.max)) continue;
      ++num_decided;
      EXPECT_EQ(scored.best, prompt.positions[i].best) << prompt.name << ", position " << i;
    }
  }
  EXPECT_GE(static_cast<double>(num_decided), kMinDecided * kNumPositions);
  Report("num_decided", static_cast<double>(num_decided));
}

void SmolLm2Check::ExpectReferencesGreedyTextWhileItIsDecided() const {
  size_t num_equal = 0;
  for (size_t p = 0; p < scores_.size(); ++p) {
    const ReferencePrompt& prompt = reference_.prompts[p];
    const std::vector<TokenId> text =
        DecodeGreedily(model_, prompt.prompt, prompt.continuation.size());
    const auto [differing, expected] =
        std::mismatch(text.begin(), text.end(), prompt.continuation.begin());
    const size_t length = static_cast<size_t>(differing - text.begin());
    num_equal += length;
    if (differing == text.end()) continue;
    // Up to here the tokens were those of the teacher forced run.
    EXPECT_FALSE(IsDecided(prompt.positions[length], scores_[p][length].error.max))
        << prompt.name << ": token " << length << " is " << *differing << ", not " << *expected;
  }
  EXPECT_GE(num_equal, NumTokensDecidedInAnyCase(reference_));
  Report("num_equal_greedy_tokens", static_cast<double>(num_equal));
}

void SmolLm2Check::ExpectSameBitsFromDecodingAsFromPrefill() const {
  const ReferencePrompt& prompt = reference_.prompts.front();
  std::vector<TokenId> tokens = prompt.prompt;
  tokens.insert(tokens.end(), prompt.continuation.begin(), prompt.continuation.begin() + 24);
  SequenceRunner runner(model_, tokens);
  const std::vector<float> whole = runner.RunInStepsOf(static_cast<uint32_t>(tokens.size()));
  EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(1), whole));
  EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(7), whole));
}

void SmolLm2Check::ExpectCloseTo(ForwardModel& other) const {
  Errors differences;
  size_t num_other_best = 0;
  const size_t vocab_size = model_.info().vocab_size;
  ASSERT_EQ(other.info().vocab_size, vocab_size);
  for (size_t p = 0; p < scores_.size(); ++p) {
    const ReferencePrompt& prompt = reference_.prompts[p];
    const std::vector<float> logits = LogitsOf(model_, prompt);
    const std::vector<float> other_logits = LogitsOf(other, prompt);
    const std::vector<Scored> other_scores = Score(other_logits, prompt);
    for (size_t i = 0; i < scores_[p].size(); ++i) {
      const Scored& scored = scores_[p][i];
      const Scored& other_scored = other_scores[i];
      differences.Add(SummariseError(std::span(logits).subspan(i * vocab_size, vocab_size),
                                     std::span(other_logits).subspan(i * vocab_size, vocab_size)));
      if (scored.best == other_scored.best) continue;
      ++num_other_best;
      EXPECT_FALSE(
          IsDecided(prompt.positions[i], std::max(scored.error.max, other_scored.error.max)))
          << prompt.name << ", position " << i;
    }
  }
  // Two backends with errors like plain bf16's, each with its own, differ by about sqrt(2) times
  // that. Of the largest difference only the triangle inequality is sure.
  const Errors bf16 = ErrorsOfPlainBf16(reference_);
  EXPECT_LE(differences.rms(), kErrorFactor * bf16.rms());
  EXPECT_LE(differences.max(), 2.0 * kErrorFactor * bf16.max());
  Report("rms_difference", differences.rms());
  Report("max_difference", differences.max());
  Report("num_other_best_tokens", static_cast<double>(num_other_best));
}

}  // namespace lockstep::worker
