#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace lockstep::worker {

struct DistributionBounds {
  double max_kl = 0;         // of the model from the other one, in nats, over all positions
  double min_agreement = 0;  // share of positions with the same likeliest token
};

// Compares the distributions of the next token, and prints both figures. Logits are [positions,
// vocab_size].
void ExpectCloseDistributions(std::string_view name, std::span<const float> model,
                              std::span<const float> other, size_t vocab_size,
                              const DistributionBounds& bounds);

// The first tokens of the golden prompts of SmolLM2, one prompt after the other.
std::vector<TokenId> SmolLm2Tokens(size_t num_tokens);

}  // namespace lockstep::worker
