#include "common/model_files/families/tensor_names.h"

namespace lockstep {
namespace {

// llama.cpp rotates neighbours in this architecture, and stores q and k for that.
constexpr TensorNames LlamaGgufNames() {
  TensorNames names = kGgufNames;
  names.interleaved_heads = true;
  return names;
}

}  // namespace

// Llama 2 and 3, SmolLM2, and others that say LlamaForCausalLM.
const ModelFamily& LlamaFamily() {
  static constexpr ModelFamily kFamily = {.name = "llama",
                                          .architecture = "LlamaForCausalLM",
                                          .may_have_mlp_bias = true,
                                          .hugging_face = kHuggingFaceNames,
                                          .gguf = LlamaGgufNames()};
  return kFamily;
}

}  // namespace lockstep
