#pragma once

#include "common/model_files/model_family.h"

namespace lockstep {

// The usual names of a decoder's tensors.
inline constexpr TensorNames kHuggingFaceNames = {
    .layer_prefix = "model.layers.",
    .token_embedding = "model.embed_tokens",
    .final_norm = "model.norm",
    .lm_head = "lm_head",
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

inline constexpr TensorNames kGgufNames = {
    .layer_prefix = "blk.",
    .token_embedding = "token_embd",
    .final_norm = "output_norm",
    .lm_head = "output",
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

}  // namespace lockstep
