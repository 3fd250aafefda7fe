#include "common/model_files/families/tensor_names.h"

namespace lockstep {
namespace {

// For this architecture, llama.cpp rotates neighbouring elements and stores q and k in the order
// for that.
constexpr TensorNames LlamaGgufNames() {
  TensorNames names = kGgufNames;
  names.interleaved_heads = true;
  return names;
}

}  // namespace

// Llama 2 and 3, SmolLM2, and other models with the class LlamaForCausalLM.
const ModelFamily& LlamaFamily() {
  static constexpr ModelFamily kFamily = {.name = "llama",
                                          .architecture = "LlamaForCausalLM",
                                          .may_have_mlp_bias = true,
                                          .hugging_face = kHuggingFaceNames,
                                          .gguf = LlamaGgufNames()};
  return kFamily;
}

}  // namespace lockstep
