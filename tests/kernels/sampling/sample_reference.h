#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/sampling/sample.h"

namespace lockstep::testing {

// The distribution that kernels::SampleToken draws from, by the definition in sample.h: fp64, full
// sorts, no shortcuts. Candidates in the order in which a draw walks them, with probabilities that
// add up to 1; empty when there are none.
std::vector<std::pair<TokenId, double>> ReferenceDistribution(
    const kernels::SampleParams& params, std::vector<float> logits,
    const std::vector<kernels::TokenCount>& seen, bool mask_stop_ids);

// All combinations of filters; some of them with penalties, a bias and a stop id, some restricted
// to every third token.
std::vector<kernels::SampleParams> ManyParams(size_t vocab_size);

// The walk of a uniform number through a distribution; nothing where rounding could decide.
std::optional<TokenId> Walk(const std::vector<std::pair<TokenId, double>>& distribution,
                            double uniform);

}  // namespace lockstep::testing
