#include "tests/worker/model/distribution_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "tests/worker/model/golden_logits.h"
#include "tests/worker/model/sequence_runner.h"

namespace lockstep::worker {
namespace {

std::vector<double> LogprobsOf(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  std::vector<double> logprobs(logits.size());
  std::ranges::transform(logits, logprobs.begin(),
                         [&](float logit) { return logit - largest - std::log(sum); });
  return logprobs;
}

}  // namespace

void ExpectCloseDistributions(std::string_view name, std::span<const float> model,
                              std::span<const float> other, size_t vocab_size,
                              const DistributionBounds& bounds) {
  ASSERT_EQ(model.size(), other.size()) << name;
  const size_t num_positions = model.size() / vocab_size;
  ASSERT_GT(num_positions, 0u) << name;
  double kl = 0;
  size_t num_same = 0;
  for (size_t i = 0; i < num_positions; ++i) {
    const std::span<const float> row = model.subspan(i * vocab_size, vocab_size);
    const std::span<const float> other_row = other.subspan(i * vocab_size, vocab_size);
    const std::vector<double> p = LogprobsOf(row);
    const std::vector<double> q = LogprobsOf(other_row);
    for (size_t token = 0; token < vocab_size; ++token) {
      kl += std::exp(p[token]) * (p[token] - q[token]);
    }
    num_same += BestToken(row) == BestToken(other_row) ? 1 : 0;
  }
  kl /= static_cast<double>(num_positions);
  const double agreement = static_cast<double>(num_same) / static_cast<double>(num_positions);
  std::printf("%s: KL divergence %.5f, same likeliest token %.1f %%\n", std::string(name).c_str(),
              kl, 100 * agreement);
  EXPECT_LE(kl, bounds.max_kl) << name;
  EXPECT_GE(kl, 0.0) << name;
  EXPECT_GE(agreement, bounds.min_agreement) << name;
}

std::vector<TokenId> SmolLm2Tokens(size_t num_tokens) {
  std::vector<TokenId> tokens;
  for (const auto& prompt : ReadReferenceLogprobs("tests/golden/smollm2/logprobs.json").prompts) {
    tokens.insert(tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
  }
  EXPECT_GE(tokens.size(), num_tokens);
  tokens.resize(num_tokens);
  return tokens;
}

}  // namespace lockstep::worker
