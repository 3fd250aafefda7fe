#include <limits>

#include "kernels/core/vector_math.h"
#include "kernels/sampling/noise/best_with_noise_isa.h"
#include "kernels/sampling/noise/gumbel_noise.h"

namespace lockstep::kernels::LOCKSTEP_ISA {
namespace {

constexpr int kWordsPerGroup = 4;
constexpr int kGroups = 64;  // at once
constexpr int kTokens = kWordsPerGroup * kGroups;

// Words of noise for the tokens from `first` on, a multiple of kWordsPerGroup.
[[gnu::always_inline]] inline void FillWords(const DrawKey& key, uint32_t first,
                                             uint32_t* __restrict words) {
  uint32_t c0[kGroups], c1[kGroups], c2[kGroups], c3[kGroups];
  for (int i = 0; i < kGroups; ++i) {
    c0[i] = key.position;
    c1[i] = key.sample_index;
    c2[i] = first / kWordsPerGroup + static_cast<uint32_t>(i);
    c3[i] = 0;
  }
  uint32_t key0 = static_cast<uint32_t>(key.seed);
  uint32_t key1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kGroups; ++i) PhiloxRound(c0[i], c1[i], c2[i], c3[i], key0, key1);
    NextPhiloxKey(key0, key1);
  }
  for (int i = 0; i < kGroups; ++i) {
    words[kWordsPerGroup * i] = c0[i];
    words[kWordsPerGroup * i + 1] = c1[i];
    words[kWordsPerGroup * i + 2] = c2[i];
    words[kWordsPerGroup * i + 3] = c3[i];
  }
}

[[gnu::always_inline]] inline float Finite(float score) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr float kHighest = std::numeric_limits<float>::max();
  const float number = score > kLowest ? score : kLowest;
  return number < kHighest ? number : kHighest;
}

// Writes (score - max) / temperature of `count` tokens to `scaled`. Returns the largest of them.
[[gnu::always_inline]] inline float ScaleScores(const NoisyDraw& draw, const float* scores,
                                                int64_t count, float* __restrict scaled) {
  float best = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    scaled[i] = (Finite(scores[i]) - draw.max) * draw.inverse_temperature;
    best = scaled[i] > best ? scaled[i] : best;
  }
  return best;
}

[[gnu::always_inline]] inline bool Beats(float value, TokenId token, const NoisyToken& best) {
  return value > best.value || (value == best.value && token < best.token);
}

[[gnu::always_inline]] inline bool AnyMayReach(const float* scaled, const uint32_t* words,
                                               int64_t count, float value) {
  uint32_t any = 0;
  for (int64_t i = 0; i < count; ++i) {
    any |= scaled[i] + GumbelNoiseAtMost(words[i]) > value ? 1u : 0u;
  }
  return any != 0;
}

}  // namespace

void RaiseToBestWithNoise(const NoisyDraw& draw, const float* scores, int64_t count,
                          NoisyToken* best) {
  float scaled[kTokens];
  uint32_t words[kTokens];
  for (int64_t first = 0; first < count; first += kTokens) {
    const int64_t num_tokens = count - first < kTokens ? count - first : kTokens;
    const float largest = ScaleScores(draw, scores + first, num_tokens, scaled);
    if (largest + kMaxGumbelNoise < best->value) continue;
    FillWords(draw.key, static_cast<uint32_t>(first), words);
    if (!AnyMayReach(scaled, words, num_tokens, best->value)) continue;
    for (int64_t i = 0; i < num_tokens; ++i) {
      if (!(scaled[i] + GumbelNoiseAtMost(words[i]) > best->value)) continue;
      const float value = scaled[i] + GumbelNoise(words[i]);
      const auto token = static_cast<TokenId>(first + i);
      if (!Beats(value, token, *best)) continue;
      const float distance = Finite(scores[first + i]) - draw.max;
      if (draw.min_p > 0 && Exp(distance / draw.temperature) < draw.min_p) continue;
      *best = {value, token};
    }
  }
}

}  // namespace lockstep::kernels::LOCKSTEP_ISA
