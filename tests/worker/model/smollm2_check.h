#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/support/tensor_compare.h"
#include "tests/worker/model/golden_logits.h"
#include "worker/model/forward_model.h"

namespace lockstep::worker {

inline constexpr char kSmolLm2Path[] = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";
// Room for every prompt with its continuation.
inline constexpr uint32_t kSmolLm2MaxTokens = 512;
inline constexpr uint32_t kSmolLm2KvBlocks = 64;

// What SmolLM2-135M from its GGUF file must do, on any backend: against transformers in fp32 on the
// same file, 20 prompts x 64 positions.
class SmolLm2Check {
 public:
  // Runs all prompts, teacher forced. `model` outlives the object.
  explicit SmolLm2Check(ForwardModel& model);

  void ExpectErrorWithinTwiceThatOfPlainBf16() const;
  void ExpectReferencesBestTokenWhereItIsDecided() const;
  // The model's own text, token by token: the reference's until the first position that is not
  // decided.
  void ExpectReferencesGreedyTextWhileItIsDecided() const;
  void ExpectSameBitsFromDecodingAsFromPrefill() const;
  // Another backend, over the whole vocabulary.
  void ExpectCloseTo(ForwardModel& other) const;

 private:
  // One position of one prompt: what a model chooses there, and its distance from the reference
  // over the reference's subset of the vocabulary.
  struct Scored {
    TokenId best = 0;
    ErrorSummary error;
  };

  // Of the tokens from which the continuation is chosen, [continuation.size(), vocab_size].
  std::vector<float> LogitsOf(ForwardModel& model, const ReferencePrompt& prompt) const;
  std::vector<Scored> Score(std::span<const float> logits, const ReferencePrompt& prompt) const;

  ForwardModel& model_;
  const SmolLm2Reference reference_;
  std::vector<std::vector<Scored>> scores_;  // [prompt][position]
};

}  // namespace lockstep::worker
