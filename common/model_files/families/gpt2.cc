#include "common/model_files/model_family.h"

namespace lockstep {
namespace {

constexpr std::string_view kGpt2HarmlessKeys[] = {"attn_pdrop",
                                                  "n_ctx",  // an older name of n_positions
                                                  "summary_activation",
                                                  "summary_first_dropout",
                                                  "summary_proj_to_labels",
                                                  "summary_type",
                                                  "summary_use_proj"};
// The causal mask, which older versions of transformers save.
constexpr std::string_view kGpt2IgnoredEndings[] = {".attn.bias", ".attn.masked_bias"};

}  // namespace

// GPT-2 and DistilGPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners").
const ModelFamily& Gpt2Family() {
  static constexpr ModelFamily kFamily = {.name = "gpt2",
                                          .architecture = "GPT2LMHeadModel",
                                          .keys = {.hidden_size = "n_embd",
                                                   .intermediate_size = "n_inner",
                                                   .num_layers = "n_layer",
                                                   .num_heads = "n_head",
                                                   .max_context_tokens = "n_positions",
                                                   .norm_eps = "layer_norm_epsilon",
                                                   .activation = "activation_function",
                                                   .harmless = kGpt2HarmlessKeys},
                                          .norm = NormKind::kLayer,
                                          .positions = PositionKind::kLearned,
                                          .mlp = MlpKind::kGeluTanh,
                                          .always_all_biases = true,
                                          .tied_by_default = true,
                                          .default_norm_eps = 1e-5,
                                          .default_intermediate_size = 4,
                                          .hugging_face = {.layer_prefix = "transformer.h.",
                                                           .token_embedding = "transformer.wte",
                                                           .position_embedding = "transformer.wpe",
                                                           .final_norm = "transformer.ln_f",
                                                           .lm_head = "lm_head",
                                                           .attention_norm = "ln_1",
                                                           .qkv = "attn.c_attn",
                                                           .attention_output = "attn.c_proj",
                                                           .mlp_norm = "ln_2",
                                                           .up = "mlp.c_fc",
                                                           .down = "mlp.c_proj",
                                                           .optional_prefix = "transformer.",
                                                           .ignored_endings = kGpt2IgnoredEndings,
                                                           .transposed_matrices = true},
                                          .gguf = {.layer_prefix = "blk.",
                                                   .token_embedding = "token_embd",
                                                   .position_embedding = "position_embd",
                                                   .final_norm = "output_norm",
                                                   .lm_head = "output",
                                                   .attention_norm = "attn_norm",
                                                   .qkv = "attn_qkv",
                                                   .attention_output = "attn_output",
                                                   .mlp_norm = "ffn_norm",
                                                   .up = "ffn_up",
                                                   .down = "ffn_down"}};
  return kFamily;
}

}  // namespace lockstep
