#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "kernels/core/stream.h"

// Reductions over one row of logits or scores, [vocab_size] fp32. All of them read NaN as minus
// infinity and plus infinity as the largest finite number, and their results depend on the row
// alone.
//
// Summation tree: the row is cut into blocks of kSumBlock elements; element i of a block goes into
// fp32 partial i % 16, in ascending order; partials l and l + 8 are added, then l + 4, l + 2, l +
// 1; block sums are added in fp64 in ascending order.
namespace lockstep::kernels {

inline constexpr size_t kSumBlock = 1024;

struct ScoredToken {
  float score = 0;
  TokenId token = 0;
};

// The largest score and the lowest id that has it; {-inf, 0} when there is no number above -inf.
ScoredToken FindMax(std::span<const float> row);

// Sum of e^((row[i] - max) / temperature). `max` is FindMax(row).score and above -inf; temperature
// is positive. Terms below e^kExpUnderflow count as 0. `weights`, when not empty, receives the
// terms: [row.size()]. The bits are the same on every instruction set.
double ExpSum(const Stream& stream, std::span<const float> row, float max, float temperature,
              std::span<float> weights);

// Puts the `k` best entries into `best`, in descending score, ties in ascending id. Entries at -inf
// are left out, so there may be fewer. Selects first; sorts only the selected ones.
void SelectTopK(std::span<const float> row, size_t k, std::vector<ScoredToken>& best);

// Number of entries that come before `token` in the order of SelectTopK, plus 1.
uint32_t RankOf(std::span<const float> row, TokenId token);

// A score that the reductions above take as it is.
float FiniteScore(float score);

}  // namespace lockstep::kernels
