#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/model_files/model_config.h"

// What a family of models calls things in its files, and how it differs from other families. A new
// family of known parts is one file in families/ and one name in families/registry.cc
// (docs/adding/model-family.md). The defaults below are those of Llama.
namespace lockstep {

// How one container names the tensors of a model. Each name is followed by ".weight" or ".bias".
// Names of layer tensors begin with the prefix, the layer's number and a dot. An empty name: files
// of the family have no such tensor.
struct TensorNames {
  std::string_view layer_prefix = {};
  std::string_view token_embedding = {};
  std::string_view position_embedding = {};
  std::string_view final_norm = {};
  std::string_view lm_head = {};
  std::string_view attention_norm = {};
  std::string_view qkv = {};  // one tensor in place of the next three
  std::string_view q = {};
  std::string_view k = {};
  std::string_view v = {};
  std::string_view q_norm = {};
  std::string_view k_norm = {};
  std::string_view attention_output = {};
  std::string_view mlp_norm = {};
  std::string_view gate = {};
  std::string_view up = {};
  std::string_view down = {};
  // Some files leave this beginning out of all their names.
  std::string_view optional_prefix = {};
  // Endings of names of tensors that nothing needs, such as saved masks.
  std::span<const std::string_view> ignored_endings = {};
  // The matrices of layers are [inputs, outputs] (Conv1D of GPT-2), not [outputs, inputs].
  bool transposed_matrices = false;
  // The files have w, and the model multiplies by 1 + w (Gemma). The 1 is added in fp32 when
  // weights are loaded. llama.cpp adds it when it converts, so GGUF files have the sum.
  bool norms_lack_one = false;
  // The file has the rows of each q and k head in the order 0, D/2, 1, D/2 + 1, ..., because its
  // authors rotate neighbouring elements. llama.cpp writes GGUF files of the architecture "llama"
  // in this order, and files of most others not. Nothing in a file says which order it has. With a
  // wrong value the file loads and gives wrong logits. Not for families with qk_norm.
  bool interleaved_heads = false;
};

// A key that we do not implement, and the values at which it changes nothing, as a JSON list. Null
// and absent always do nothing.
struct NeutralKey {
  std::string_view key;
  std::string_view neutral_json;
};

// The keys of config.json that families call differently. All other keys have one name
// (model_config_json.cc).
struct ConfigKeys {
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view num_layers = "num_hidden_layers";
  std::string_view num_heads = "num_attention_heads";
  std::string_view max_context_tokens = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";
  // Keys that never matter and deserve no warning, besides those of kHarmlessKeys in
  // config_keys.cc.
  std::span<const std::string_view> harmless = {};
  // Keys that matter at any value except the given ones, besides those in config_key_lists.h
  // and config_keys.cc.
  std::span<const NeutralKey> neutral = {};
};

// Which layers have a window, where config.json has no layer_types.
enum class WindowLayers {
  kNone,     // none; a file with a window that is shorter than the context is refused
  kAll,      // as in Ministral
  kLatter,   // those from max_window_layers on, as in Qwen
  kPattern,  // all but every sliding_window_pattern-th, as in Gemma 3
};

// How config.json says windows. All families read the list layer_types, of "full_attention" and
// "sliding_attention", and sliding_window, the number of tokens. Null is no window, and an error
// if a layer has one. GGUF files of families with kAll or kPattern are refused: see model-files.md.
struct WindowRule {
  WindowLayers layers = WindowLayers::kNone;
  bool needs_switch = false;       // sliding_window counts only if use_sliding_window is true
  uint32_t default_window = 4096;  // without sliding_window
  uint32_t default_pattern = 1;    // without sliding_window_pattern
  // The key of the base with which layers with a window rotate. They take no scaling of positions.
  // Empty: they rotate as all others.
  std::string_view rope_theta_key = {};
  double default_rope_theta = 10000.0;  // without that key
};

struct ModelFamily {
  std::string_view name;          // model_type of config.json, general.architecture of GGUF
  std::string_view architecture;  // of config.json's "architectures"
  ConfigKeys keys = {};
  NormKind norm = NormKind::kRms;
  PositionKind positions = PositionKind::kRotary;
  MlpKind mlp = MlpKind::kSwiGlu;  // where config.json does not say
  bool qk_norm = false;            // an RMSNorm over each q and k head, before rotation
  // Biases that are a part of the architecture, whatever config.json says.
  bool always_qkv_bias = false;
  bool always_all_biases = false;
  bool may_have_mlp_bias = false;  // if the key mlp_bias says so
  // Where config.json does not say:
  bool tied_by_default = false;  // the logits are products with the token embedding
  double default_norm_eps = 1e-6;
  uint32_t default_head_dim = 0;           // 0: hidden size / heads
  uint32_t default_intermediate_size = 0;  // times the hidden size; 0: config.json must say
  WindowRule windows = {};
  TensorNames hugging_face = {};
  TensorNames gguf = {};
};

// The families of families/registry.cc, then those that RegisterModelFamily added. A further call
// of RegisterModelFamily invalidates the span.
std::span<const ModelFamily* const> ModelFamilies();
// By name; null: there is none.
const ModelFamily* FindModelFamily(std::string_view name);
// Adds a family to those of registry.cc. Call before a model is loaded, from one thread. For
// families outside this repository, and for tests. The family must outlive all use of models. Does
// nothing if this object is there already. Dies if another family has its name or architecture.
void RegisterModelFamily(const ModelFamily& family);

}  // namespace lockstep
