#include <algorithm>
#include <limits>

#include "common/status.h"
#include "kernels/sampling/noise/best_with_noise.h"
#include "kernels/sampling/noise/gumbel_noise.h"
#include "kernels/sampling/sample.h"

namespace lockstep::kernels {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

void KeepAllowed(std::span<const TokenId> allowed, std::span<float> logits,
                 std::vector<float>& scores) {
  for (size_t i = 0; i < allowed.size(); ++i) scores[i] = logits[allowed[i]];
  std::fill(logits.begin(), logits.end(), kMasked);
  for (size_t i = 0; i < allowed.size(); ++i) logits[allowed[i]] = scores[i];
}

void KeepMasked(std::span<const uint32_t> mask, std::span<float> logits) {
  constexpr size_t kBits = 32;
  for (size_t begin = 0; begin < logits.size(); begin += kBits) {
    const uint32_t word = mask[begin / kBits];
    if (word == UINT32_MAX) continue;
    const size_t end = std::min(begin + kBits, logits.size());
    for (size_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1) == 0) logits[i] = kMasked;
    }
  }
}

void ApplyPenalties(const SampleParams& params, std::span<const TokenCount> seen,
                    std::span<float> logits) {
  for (const TokenCount& entry : seen) {
    float score = FiniteScore(logits[entry.token]);
    score = score > 0 ? score / params.repetition_penalty : score * params.repetition_penalty;
    if (entry.num_generated > 0) {
      score -= params.presence_penalty;
      score -= params.frequency_penalty * static_cast<float>(entry.num_generated);
    }
    logits[entry.token] = FiniteScore(score);
  }
}

// Steps 1 to 5.
void AdjustLogits(const SampleParams& params, const SampleRow& row, SampleWorkspace& workspace) {
  const std::span<float> logits = row.logits;
  if (!params.allowed_token_ids.empty()) {
    KeepAllowed(params.allowed_token_ids, logits, workspace.scores);
  }
  if (!row.mask.empty()) KeepMasked(row.mask, logits);
  for (size_t i = 0; i < params.logit_bias_ids.size(); ++i) {
    float& score = logits[params.logit_bias_ids[i]];
    score = FiniteScore(FiniteScore(score) + params.logit_bias_values[i]);
  }
  if (params.has_penalties()) ApplyPenalties(params, row.seen_tokens, logits);
  if (row.mask_stop_ids) {
    for (const TokenId token : params.stop_token_ids) logits[token] = kMasked;
  }
}

// The candidates that steps 7 to 10 keep: the first `count` of workspace.best, with their weights.
struct Nucleus {
  size_t count = 0;
  bool complete = false;  // no further candidate could belong to it
};

Nucleus CutNucleus(const SampleParams& params, double total, std::span<const float> weights) {
  Nucleus nucleus;
  double sum = 0;
  for (const float weight : weights) {
    // The best candidate's weight is 1.
    if (weight == 0 || weight < params.min_p) {
      nucleus.complete = true;
      break;
    }
    sum += weight;
    ++nucleus.count;
    if (params.top_p < 1 && sum >= params.top_p * total) {
      nucleus.complete = true;
      break;
    }
  }
  return nucleus;
}

// Weights of workspace.best, added in descending order.
double WeighBest(float max, float temperature, SampleWorkspace& workspace) {
  const size_t count = workspace.best.size();
  for (size_t i = 0; i < count; ++i) workspace.scores[i] = workspace.best[i].score;
  const std::span<float> weights(workspace.weights.data(), count);
  ExpSum(workspace.stream, {workspace.scores.data(), count}, max, temperature, weights);
  double total = 0;
  for (const float weight : weights) total += weight;
  return total;
}

bool TopKIsOff(const SampleParams& params, size_t vocab_size) {
  return params.top_k == 0 || params.top_k >= vocab_size;
}

// How many of the best tokens remain, at the front of workspace.best.
size_t SelectNucleus(const SampleParams& params, float max, std::span<const float> logits,
                     SampleWorkspace& workspace) {
  if (!TopKIsOff(params, logits.size())) {
    SelectTopK(logits, params.top_k, workspace.best);
    const double total = WeighBest(max, params.temperature, workspace);
    return CutNucleus(params, total, {workspace.weights.data(), workspace.best.size()}).count;
  }
  const double total = ExpSum(workspace.stream, logits, max, params.temperature, {});
  // A nucleus is short as a rule. How many candidates were looked at does not change it.
  constexpr size_t kFirstGuess = 64, kGrowth = 8;
  for (size_t k = kFirstGuess;; k *= kGrowth) {
    SelectTopK(logits, k, workspace.best);
    WeighBest(max, params.temperature, workspace);
    const Nucleus nucleus =
        CutNucleus(params, total, {workspace.weights.data(), workspace.best.size()});
    if (nucleus.complete || workspace.best.size() < k) return nucleus.count;
  }
}

// A draw from candidates, best first. Tokens that min_p leaves out are gone already.
TokenId DrawFrom(const NoisyDraw& draw, std::span<const ScoredToken> candidates) {
  NoisyToken drawn = {.value = kMasked, .token = 0};
  for (const auto& [score, token] : candidates) {
    const float scaled = (FiniteScore(score) - draw.max) * draw.inverse_temperature;
    if (scaled + kMaxGumbelNoise < drawn.value) break;  // nor can those after it win
    const float value = scaled + NoiseOf(draw.key, token);
    if (value > drawn.value || (value == drawn.value && token < drawn.token)) {
      drawn = {value, token};
    }
  }
  return drawn.token;
}

}  // namespace

SampleWorkspace::SampleWorkspace(uint32_t vocab_size)
    : stream{.threads = nullptr, .instruction_set = BestInstructionSet()},
      scores(vocab_size),
      weights(vocab_size) {
  best.reserve(vocab_size);
}

absl::Status NoTokenLeft(uint32_t position) {
  return Internal("no token can be sampled at position {}: every logit is NaN, -inf or masked",
                  position);
}

absl::StatusOr<TokenId> SampleToken(const SampleParams& params, const SampleRow& row,
                                    SampleWorkspace& workspace) {
  AdjustLogits(params, row, workspace);
  const ScoredToken best = FindMax(row.logits);
  if (best.score == kMasked) {
    return NoTokenLeft(row.position);
  }
  if (params.temperature == 0) return best.token;
  const NoisyDraw draw = {
      .key = {.seed = params.seed, .sample_index = params.sample_index, .position = row.position},
      .max = best.score,
      .temperature = params.temperature,
      .inverse_temperature = FiniteScore(1.0f / params.temperature),
      .min_p = params.min_p,
  };
  if (TopKIsOff(params, row.logits.size()) && params.top_p >= 1) {
    // The best score minus itself is 0, so only the noise is left.
    const NoisyToken start = {.value = NoiseOf(draw.key, best.token), .token = best.token};
    return BestWithNoise(workspace.stream, draw, row.logits, start).token;
  }
  const size_t count = SelectNucleus(params, best.score, row.logits, workspace);
  return DrawFrom(draw, std::span(workspace.best).first(count));
}

}  // namespace lockstep::kernels
