#include <algorithm>
#include <array>
#include <limits>

#include "kernels/sampling/noise/exp_terms_isa.h"
#include "kernels/sampling/row_reduce.h"

namespace lockstep::kernels {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr float kHighest = std::numeric_limits<float>::max();
constexpr size_t kLanes = 16;
constexpr size_t kScanBlock = 64;

float BlockMax(std::span<const float> block) {
  std::array<float, kLanes> best;
  best.fill(kLowest);
  size_t i = 0;
  for (; i + kLanes <= block.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      best[lane] = block[i + lane] > best[lane] ? block[i + lane] : best[lane];
    }
  }
  for (; i < block.size(); ++i) best[0] = block[i] > best[0] ? block[i] : best[0];
  return *std::max_element(best.begin(), best.end());
}

bool AnyAbove(const float* scores, float threshold) {
  uint32_t any = 0;
  for (size_t i = 0; i < kScanBlock; ++i) any |= scores[i] > threshold ? 1u : 0u;
  return any != 0;
}

bool Better(const ScoredToken& a, const ScoredToken& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

// Keeps the k best of `best`, the worst of them at the end.
void KeepBest(size_t k, std::vector<ScoredToken>& best) {
  const auto worst_kept = best.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(best.begin(), worst_kept, best.end(), Better);
  best.resize(k);
}

// The sum of at most kSumBlock weights.
float BlockSum(std::span<const float> weights) {
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += weights[i + lane];
  }
  for (size_t lane = 0; i < weights.size(); ++i, ++lane) sums[lane] += weights[i];
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

float FiniteScore(float score) {
  const float number = score > kLowest ? score : kLowest;
  return number < kHighest ? number : kHighest;
}

ScoredToken FindMax(std::span<const float> row) {
  ScoredToken best{kLowest, 0};
  size_t best_block = 0;
  for (size_t block = 0; block < row.size(); block += kSumBlock) {
    const float max = BlockMax(row.subspan(block, std::min(kSumBlock, row.size() - block)));
    if (max > best.score) {
      best.score = max;
      best_block = block;
    }
  }
  if (best.score == kLowest) return best;
  size_t i = best_block;
  while (row[i] != best.score) ++i;
  return {FiniteScore(best.score), static_cast<TokenId>(i)};
}

double ExpSum(const Stream& stream, std::span<const float> row, float max, float temperature,
              std::span<float> weights) {
  std::array<float, kSumBlock> unkept;
  double total = 0;
  for (size_t begin = 0; begin < row.size(); begin += kSumBlock) {
    const size_t count = std::min(kSumBlock, row.size() - begin);
    float* const terms = weights.empty() ? unkept.data() : weights.data() + begin;
    LOCKSTEP_DISPATCH(stream, ExpTerms, row.data() + begin, static_cast<int64_t>(count), max,
                      temperature, terms);
    total += BlockSum({terms, count});
  }
  return total;
}

void SelectTopK(std::span<const float> row, size_t k, std::vector<ScoredToken>& best) {
  best.clear();
  if (k == 0) return;
  // Equal scores further on have higher ids, so only what is above the k-th best so far can enter.
  float threshold = kLowest;
  constexpr size_t kSlack = 256;
  const size_t limit = 2 * std::min(k, row.size()) + kSlack;
  for (size_t block = 0; block < row.size(); block += kScanBlock) {
    const size_t end = std::min(block + kScanBlock, row.size());
    if (end - block == kScanBlock && !AnyAbove(row.data() + block, threshold)) continue;
    for (size_t i = block; i < end; ++i) {
      if (row[i] > threshold) best.push_back({row[i], static_cast<TokenId>(i)});
    }
    if (best.size() >= limit) {
      KeepBest(k, best);
      threshold = best.back().score;
    }
  }
  if (best.size() > k) KeepBest(k, best);
  std::sort(best.begin(), best.end(), Better);
}

uint32_t RankOf(std::span<const float> row, TokenId token) {
  const float score = row[token];
  uint32_t num_before = 0;
  if (score > kLowest) {
    for (size_t i = 0; i < row.size(); ++i) num_before += row[i] > score ? 1u : 0u;
    for (size_t i = 0; i < token; ++i) num_before += row[i] == score ? 1u : 0u;
  } else {
    for (size_t i = 0; i < row.size(); ++i) num_before += row[i] > kLowest ? 1u : 0u;
    for (size_t i = 0; i < token; ++i) num_before += row[i] > kLowest ? 0u : 1u;
  }
  return num_before + 1;
}

}  // namespace lockstep::kernels
