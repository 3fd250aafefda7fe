#include <algorithm>
#include <limits>

#include "common/status.h"
#include "kernels/sampling/philox.h"
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
  for (size_t i = 0; i < params.logit_bias_ids.size(); ++i) {
    float& score = logits[params.logit_bias_ids[i]];
    score = FiniteScore(FiniteScore(score) + params.logit_bias_values[i]);
  }
  if (params.has_penalties()) ApplyPenalties(params, row.seen_tokens, logits);
  if (row.mask_stop_ids) {
    for (const TokenId token : params.stop_token_ids) logits[token] = kMasked;
  }
}

std::span<const float> SumBlockAt(std::span<const float> weights, size_t begin) {
  return weights.subspan(begin, std::min(kSumBlock, weights.size() - begin));
}

// A draw from the whole row, in ascending id; only min_p filters.
TokenId DrawFromAll(const SampleParams& params, double uniform, float max,
                    std::span<const float> logits, SampleWorkspace& workspace) {
  const std::span<float> weights = std::span(workspace.weights).first(logits.size());
  double total = ExpSum(workspace.stream, logits, max, params.temperature, weights);
  if (params.min_p > 0) {
    for (float& weight : weights) weight = weight >= params.min_p ? weight : 0.0f;
    total = 0;
    for (size_t begin = 0; begin < weights.size(); begin += kSumBlock) {
      total += BlockSum(SumBlockAt(weights, begin));
    }
  }
  const double target = uniform * total;
  double sum = 0;
  size_t begin = 0;
  for (; begin < weights.size(); begin += kSumBlock) {
    const double after = sum + BlockSum(SumBlockAt(weights, begin));
    if (after > target) break;
    sum = after;
  }
  const size_t end = std::min(begin + kSumBlock, weights.size());
  for (size_t i = begin; i < end; ++i) {
    sum += weights[i];
    if (sum > target) return static_cast<TokenId>(i);
  }
  // Rounding: one by one the terms add up to a little less than the tree says.
  size_t last = end - 1;
  while (weights[last] == 0) --last;
  return static_cast<TokenId>(last);
}

// The candidates that steps 7 to 10 keep: the first `count` of workspace.best, with their weights.
struct Nucleus {
  size_t count = 0;
  double sum = 0;
  bool complete = false;  // no further candidate could belong to it
};

Nucleus CutNucleus(const SampleParams& params, double total, std::span<const float> weights) {
  Nucleus nucleus;
  for (const float weight : weights) {
    // The best candidate's weight is 1.
    if (weight == 0 || weight < params.min_p) {
      nucleus.complete = true;
      break;
    }
    nucleus.sum += weight;
    ++nucleus.count;
    if (params.top_p < 1 && nucleus.sum >= params.top_p * total) {
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

// A draw from the best tokens, in descending score.
TokenId DrawFromBest(const SampleParams& params, double uniform, float max,
                     std::span<const float> logits, SampleWorkspace& workspace) {
  Nucleus nucleus;
  if (!TopKIsOff(params, logits.size())) {
    SelectTopK(logits, params.top_k, workspace.best);
    const double total = WeighBest(max, params.temperature, workspace);
    nucleus = CutNucleus(params, total, {workspace.weights.data(), workspace.best.size()});
  } else {
    const double total = ExpSum(workspace.stream, logits, max, params.temperature, {});
    // A nucleus is short as a rule. How many candidates were looked at does not change it.
    constexpr size_t kFirstGuess = 64, kGrowth = 8;
    for (size_t k = kFirstGuess;; k *= kGrowth) {
      SelectTopK(logits, k, workspace.best);
      WeighBest(max, params.temperature, workspace);
      nucleus = CutNucleus(params, total, {workspace.weights.data(), workspace.best.size()});
      if (nucleus.complete || workspace.best.size() < k) break;
    }
  }
  const double target = uniform * nucleus.sum;
  double sum = 0;
  for (size_t i = 0; i < nucleus.count; ++i) {
    sum += workspace.weights[i];
    if (sum > target) return workspace.best[i].token;
  }
  return workspace.best[nucleus.count - 1].token;
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
  const double uniform = UniformDraw({.seed = params.seed,
                                      .sample_index = params.sample_index,
                                      .position = row.position,
                                      .draw = 0});
  if (TopKIsOff(params, row.logits.size()) && params.top_p >= 1) {
    return DrawFromAll(params, uniform, best.score, row.logits, workspace);
  }
  return DrawFromBest(params, uniform, best.score, row.logits, workspace);
}

}  // namespace lockstep::kernels
