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

// tests/golden/smollm2/logprobs.json.
struct ReferenceLogprobs {
  struct Prompt {
    std::string name;
    std::vector<TokenId> tokens;
    std::vector<double> logprobs;  // of every token but the first, by transformers in fp32
  };
  std::vector<Prompt> prompts;
  double bf16_mean_error = 0.0;  // of transformers in bf16
};

ReferenceLogprobs ReadReferenceLogprobs(const std::string& path);

}  // namespace lockstep::worker
