#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::worker {

// Tensor names of a container. Layer names are stems: prefix, number, '.', stem, suffix.
struct WeightNames {
  std::string_view layer_prefix;
  std::string_view token_embedding;
  std::string_view final_norm;
  std::string_view lm_head;
  std::string_view attention_norm;
  std::string_view q;
  std::string_view k;
  std::string_view v;
  std::string_view q_norm;
  std::string_view k_norm;
  std::string_view attention_output;
  std::string_view mlp_norm;
  std::string_view gate;
  std::string_view up;
  std::string_view down;
};

extern const WeightNames kHuggingFaceNames;
extern const WeightNames kGgufNames;

// GGUF's place for the divisors of rotary frequencies (Llama 3).
inline constexpr std::string_view kGgufRopeDivisors = "rope_freqs.weight";

// "model.layers.3.self_attn.q_proj" + suffix ".weight" or ".bias".
std::string LayerTensorName(const WeightNames& names, int64_t layer, std::string_view stem,
                            std::string_view suffix);

// A tensor that files carry although nothing needs it: saved rotary buffers.
bool IsIgnorableTensor(std::string_view name);

}  // namespace lockstep::worker
