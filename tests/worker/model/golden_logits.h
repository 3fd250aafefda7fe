#pragma once

#include <string>
#include <vector>

#include "common/ids.h"

namespace lockstep::worker {

// One prompt of tests/golden/tiny-*/golden.json and its rows of golden.f32
// (tests/golden/README.md).
struct GoldenPrompt {
  std::string name;
  std::vector<TokenId> tokens;         // prompt and continuation
  std::vector<float> logits;           // [tokens.size(), vocab_size], transformers in fp32
  std::vector<double> bf16_max_error;  // [tokens.size()], of transformers in bf16
  std::vector<double> bf16_rms_error;
};

// Throws on a file that is not what the README says.
std::vector<GoldenPrompt> ReadGoldenPrompts(const std::string& folder);

// One row of tests/golden/smollm2/reference.bin.
struct ReferencePosition {
  TokenId best = 0;
  TokenId second = 0;
  float best_logit = 0.0f;
  float second_logit = 0.0f;
  float bf16_max_error = 0.0f;
  float bf16_rms_error = 0.0f;
  std::vector<float> subset_logits;  // of SmolLm2Reference::subset_ids
};

struct ReferencePrompt {
  std::string name;
  std::vector<TokenId> prompt;
  std::vector<TokenId> continuation;
  std::vector<ReferencePosition> positions;  // position i chooses continuation[i]
};

struct SmolLm2Reference {
  std::vector<TokenId> subset_ids;
  std::vector<ReferencePrompt> prompts;
};

SmolLm2Reference ReadSmolLm2Reference(const std::string& folder);

}  // namespace lockstep::worker
