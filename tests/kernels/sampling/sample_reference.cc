#include "tests/kernels/sampling/sample_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::testing {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

using Candidates = std::vector<std::pair<TokenId, double>>;

bool Contains(const std::vector<TokenId>& ids, TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

std::vector<double> AdjustedScores(const kernels::SampleParams& params,
                                   const std::vector<float>& logits,
                                   const std::vector<kernels::TokenCount>& seen,
                                   bool mask_stop_ids) {
  std::vector<double> scores(logits.begin(), logits.end());
  for (TokenId token = 0; token < scores.size(); ++token) {
    const bool allowed =
        params.allowed_token_ids.empty() || Contains(params.allowed_token_ids, token);
    if (std::isnan(scores[token]) || !allowed) scores[token] = kMasked;
  }
  for (size_t i = 0; i < params.logit_bias_ids.size(); ++i) {
    scores[params.logit_bias_ids[i]] += double{params.logit_bias_values[i]};
  }
  for (const kernels::TokenCount& entry : seen) {
    double& score = scores[entry.token];
    score = score > 0 ? score / params.repetition_penalty : score * params.repetition_penalty;
    if (entry.num_generated > 0) score -= params.presence_penalty;
    score -= double{params.frequency_penalty} * entry.num_generated;
  }
  if (mask_stop_ids) {
    for (const TokenId token : params.stop_token_ids) scores[token] = kMasked;
  }
  return scores;
}

void Normalize(Candidates& candidates) {
  double sum = 0;
  for (const auto& [token, weight] : candidates) sum += weight;
  for (auto& [token, weight] : candidates) weight /= sum;
}

}  // namespace

Candidates ReferenceDistribution(const kernels::SampleParams& params, std::vector<float> logits,
                                 const std::vector<kernels::TokenCount>& seen, bool mask_stop_ids) {
  const std::vector<double> scores = AdjustedScores(params, logits, seen, mask_stop_ids);
  Candidates candidates;
  for (TokenId token = 0; token < scores.size(); ++token) {
    if (scores[token] > kMasked) candidates.emplace_back(token, scores[token]);
  }
  if (candidates.empty()) return {};
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (params.temperature == 0) return {{candidates[0].first, 1.0}};
  if (params.top_k > 0 && candidates.size() > params.top_k) candidates.resize(params.top_k);
  const double max = candidates[0].second;
  for (auto& [token, score] : candidates) score = std::exp((score - max) / params.temperature);
  Normalize(candidates);
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || params.top_p >= 1 || sum < params.top_p)) {
    sum += candidates[kept++].second;
  }
  candidates.resize(kept);
  const double least = params.min_p * candidates[0].second;
  std::erase_if(candidates, [least](const auto& candidate) { return candidate.second < least; });
  Normalize(candidates);
  return candidates;
}

std::vector<kernels::SampleParams> ManyParams(size_t vocab_size) {
  std::vector<kernels::SampleParams> all;
  for (const float temperature : {0.5f, 1.0f, 1.7f}) {
    for (const uint32_t top_k : {0u, 1u, 7u, 100u, 5000u, 1'000'000u}) {
      for (const float top_p : {1.0f, 0.95f, 0.3f}) {
        for (const float min_p : {0.0f, 0.05f}) {
          all.push_back(
              {{.temperature = temperature, .top_p = top_p, .min_p = min_p, .top_k = top_k}});
        }
      }
    }
  }
  for (size_t i = 0; i < all.size(); i += 3) {
    all[i].presence_penalty = 0.5f;
    all[i].frequency_penalty = 0.2f;
    all[i].repetition_penalty = 1.2f;
    all[i].logit_bias_ids = {static_cast<TokenId>(vocab_size - 1)};
    all[i].logit_bias_values = {2.0f};
    all[i].stop_token_ids = {0};
  }
  for (size_t i = 1; i < all.size(); i += 5) {
    for (TokenId token = 0; token < vocab_size; token += 3) {
      all[i].allowed_token_ids.push_back(token);
    }
  }
  return all;
}

std::optional<TokenId> ReferenceDraw(const Candidates& distribution, const kernels::DrawKey& key) {
  constexpr double kMargin = 1e-4;
  std::optional<TokenId> drawn;
  double best = kMasked, second = kMasked;
  for (const auto& [token, probability] : distribution) {
    const double u = (kernels::NoiseWords(key, token / 4)[token % 4] + 0.5) * 0x1p-32;
    const double value = std::log(probability) - std::log(-std::log(u));
    if (value > best) drawn = token;
    second = std::max(second, std::min(value, best));
    best = std::max(best, value);
  }
  return best - second < kMargin ? std::nullopt : drawn;
}

double DeviationOf(const std::map<TokenId, int>& counts, const Candidates& distribution) {
  int num_draws = 0, num_known = 0;
  for (const auto& [token, count] : counts) num_draws += count;
  double chi_square = 0;
  for (const auto& [token, probability] : distribution) {
    const auto found = counts.find(token);
    const int count = found == counts.end() ? 0 : found->second;
    const double expected = probability * num_draws;
    chi_square += (count - expected) * (count - expected) / expected;
    num_known += count;
  }
  if (num_known != num_draws) return std::numeric_limits<double>::infinity();
  const double freedom = static_cast<double>(distribution.size()) - 1;
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

}  // namespace lockstep::testing
