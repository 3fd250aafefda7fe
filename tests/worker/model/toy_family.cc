#include "tests/worker/model/toy_family.h"

#include "common/model_files/families/tensor_names.h"

namespace lockstep::worker {

const ModelFamily& PebbleFamily() {
  static constexpr ModelFamily kFamily = {.name = "pebble",
                                          .architecture = "PebbleForCausalLM",
                                          .keys = {.num_layers = "num_stones"},
                                          .qk_norm = true,
                                          .windows = {.layers = WindowLayers::kPattern,
                                                      .default_window = 32,
                                                      .default_pattern = 2,
                                                      .rope_theta_key = "local_rope_theta",
                                                      .default_rope_theta = 100.0},
                                          .hugging_face = {.layer_prefix = "stones.",
                                                           .token_embedding = "words",
                                                           .final_norm = "last_norm",
                                                           .lm_head = "answers",
                                                           .attention_norm = "look_norm",
                                                           .q = "look.query",
                                                           .k = "look.key",
                                                           .v = "look.value",
                                                           .q_norm = "look.query_norm",
                                                           .k_norm = "look.key_norm",
                                                           .attention_output = "look.out",
                                                           .mlp_norm = "think_norm",
                                                           .gate = "think.gate",
                                                           .up = "think.up",
                                                           .down = "think.down"},
                                          .gguf = kGgufNames};
  return kFamily;
}

}  // namespace lockstep::worker
