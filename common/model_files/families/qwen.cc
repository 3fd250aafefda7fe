#include "common/model_files/families/tensor_names.h"

namespace lockstep {

// Qwen2 and Qwen2.5.
const ModelFamily& Qwen2Family() {
  static constexpr ModelFamily kFamily = {
      .name = "qwen2",
      .architecture = "Qwen2ForCausalLM",
      .always_qkv_bias = true,
      .windows = {.layers = WindowLayers::kLatter, .needs_switch = true},
      .hugging_face = kHuggingFaceNames,
      .gguf = kGgufNames};
  return kFamily;
}

const ModelFamily& Qwen3Family() {
  static constexpr ModelFamily kFamily = {
      .name = "qwen3",
      .architecture = "Qwen3ForCausalLM",
      .qk_norm = true,
      .default_head_dim = 128,  // for any hidden size
      .windows = {.layers = WindowLayers::kLatter, .needs_switch = true},
      .hugging_face = kHuggingFaceNames,
      .gguf = kGgufNames};
  return kFamily;
}

}  // namespace lockstep
