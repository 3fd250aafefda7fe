#include "worker/model/weights/weight_names.h"

#include <fmt/format.h>

namespace lockstep::worker {

constexpr WeightNames kHuggingFaceNames = {
    .layer_prefix = "model.layers.",
    .token_embedding = "model.embed_tokens.weight",
    .final_norm = "model.norm.weight",
    .lm_head = "lm_head.weight",
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .attention_output = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

constexpr WeightNames kGgufNames = {
    .layer_prefix = "blk.",
    .token_embedding = "token_embd.weight",
    .final_norm = "output_norm.weight",
    .lm_head = "output.weight",
    .attention_norm = "attn_norm",
    .q = "attn_q",
    .k = "attn_k",
    .v = "attn_v",
    .q_norm = "attn_q_norm",
    .k_norm = "attn_k_norm",
    .attention_output = "attn_output",
    .mlp_norm = "ffn_norm",
    .gate = "ffn_gate",
    .up = "ffn_up",
    .down = "ffn_down",
};

std::string LayerTensorName(const WeightNames& names, int64_t layer, std::string_view stem,
                            std::string_view suffix) {
  return fmt::format("{}{}.{}{}", names.layer_prefix, layer, stem, suffix);
}

bool IsIgnorableTensor(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name == kGgufRopeDivisors;
}

}  // namespace lockstep::worker
