#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "common/sampling_numbers.h"
#include "kernels/sampling/row_reduce.h"

// Sampling of one token from one row of logits. The result depends on the row's own logits and
// parameters alone, never on its batch mates (docs/numerics.md, rule 5).
//
// Order of operations, that of Hugging Face's logits processors and warpers:
//   1. NaN becomes -inf; so do tokens outside allowed_token_ids or outside the row's mask
//   2. + logit_bias
//   3. repetition penalty, over prompt and generated tokens: positive scores are divided by it,
//      others multiplied (Keskar et al., "CTRL", 2019)
//   4. - presence_penalty - frequency_penalty * count, over generated tokens only
//   5. stop ids become -inf if mask_stop_ids
//   6. temperature 0: the best token. Otherwise the scores are divided by the temperature
//   7. top_k: the k best
//   8. softmax
//   9. top_p: the shortest prefix, by descending probability, whose sum reaches top_p
//  10. min_p: tokens at least min_p times as likely as the best one
//  11. + noise: the best of what is left is the draw (gumbel_noise.h)
// All ties go to the lowest token id.
namespace lockstep::kernels {

// Constant over the life of a sequence. Of the numbers, temperature is finite and at least 0, top_p
// in (0, 1], min_p in [0, 1], repetition_penalty above 0.
struct SampleParams : SamplingNumbers {
  uint64_t seed = 0;
  uint32_t sample_index = 0;
  std::vector<TokenId> logit_bias_ids = {};     // distinct
  std::vector<float> logit_bias_values = {};    // finite, one per id
  std::vector<TokenId> allowed_token_ids = {};  // distinct; empty: all
  std::vector<TokenId> stop_token_ids = {};
};

struct TokenCount {
  TokenId token = 0;
  uint32_t num_generated = 0;  // 0: in the prompt only
};

struct SampleRow {
  std::span<float> logits;  // [vocab_size], overwritten; ids in params are below vocab_size
  // Each token of the sequence once; read if has_penalties().
  std::span<const TokenCount> seen_tokens;
  bool mask_stop_ids = false;
  uint32_t position = 0;  // absolute position of the token being sampled
  // Token t may be sampled if bit t % 32 of word t / 32 is set; empty: all. [ceil(vocab_size / 32)]
  std::span<const uint32_t> mask = {};
};

// Scratch memory of SampleToken, reserved once for a vocabulary: sampling does not allocate.
struct SampleWorkspace {
  // Samples on the calling thread, with this processor's best instruction set.
  explicit SampleWorkspace(uint32_t vocab_size);

  Stream stream;
  std::vector<ScoredToken> best;
  std::vector<float> scores;   // [vocab_size]
  std::vector<float> weights;  // [vocab_size]
};

// INTERNAL: every logit of the row is NaN, -inf or masked. The row's token at `position` is to be
// sampled.
absl::Status NoTokenLeft(uint32_t position);

// NoTokenLeft when no token is left.
absl::StatusOr<TokenId> SampleToken(const SampleParams& params, const SampleRow& row,
                                    SampleWorkspace& workspace);

}  // namespace lockstep::kernels
