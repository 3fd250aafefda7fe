#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/sampling/noise/philox.h"
#include "kernels/sampling/sample.h"

namespace lockstep::testing {

// The distribution that kernels::SampleToken draws from, by the definition in sample.h: fp64, full
// sorts, no shortcuts. Candidates, best first, with probabilities that add up to 1; empty when
// there are none.
std::vector<std::pair<TokenId, double>> ReferenceDistribution(
    const kernels::SampleParams& params, std::vector<float> logits,
    const std::vector<kernels::TokenCount>& seen, bool mask_stop_ids);

// All combinations of filters; some of them with penalties, a bias and a stop id, some restricted
// to every third token.
std::vector<kernels::SampleParams> ManyParams(size_t vocab_size);

// The token with the best log(probability) + noise, in fp64; nothing where rounding could decide.
std::optional<TokenId> ReferenceDraw(const std::vector<std::pair<TokenId, double>>& distribution,
                                     const kernels::DrawKey& key);

// How far counts of draws are from a distribution: Pearson's statistic less its mean, in standard
// deviations; infinite if a token was drawn that the distribution lacks.
double DeviationOf(const std::map<TokenId, int>& counts,
                   const std::vector<std::pair<TokenId, double>>& distribution);

}  // namespace lockstep::testing
