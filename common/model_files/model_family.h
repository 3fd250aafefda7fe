#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/model_files/model_config.h"

// A family's names in model files, and how it differs from other families. A new family of known
// parts is one file in families/ and one name in families/registry.cc
// (docs/adding/model-family.md). The defaults below are Llama's.
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
  // Some files omit this prefix from all names.
  std::string_view optional_prefix = {};
  // Endings of the names of unneeded tensors, such as saved masks.
  std::span<const std::string_view> ignored_endings = {};
  // The matrices of layers are [inputs, outputs] (Conv1D of GPT-2), not [outputs, inputs].
  bool transposed_matrices = false;
  // The files have w, and the model multiplies by 1 + w (Gemma). The 1 is added in fp32 when
  // weights are loaded. llama.cpp adds it when it converts, so GGUF files have the sum.
  bool norms_lack_one = false;
  // The file has the rows of each q and k head in the order 0, D/2, 1, D/2 + 1, ..., because its
  // authors rotate neighbouring elements. llama.cpp writes this order into GGUF files of the
  // architecture "llama", and not into most others. Nothing in a file tells the order. With a wrong
  // value the file loads and gives wrong logits. Not for families with qk_norm.
  bool interleaved_heads = false;
};

// A key that we do not implement, and its neutral values, as a JSON list. Null and absent are
// always neutral.
struct NeutralKey {
  std::string_view key;
  std::string_view neutral_json;
};

// Keys of config.json that differ between families. All other keys have one name
// (model_config_json.cc).
struct ConfigKeys {
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view num_layers = "num_hidden_layers";
  std::string_view num_heads = "num_attention_heads";
  std::string_view max_context_tokens = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";
  // Keys that never matter and deserve no warning, in addition to kHarmlessKeys in config_keys.cc.
  std::span<const std::string_view> harmless = {};
  // Keys that matter at any value except these, in addition to config_key_lists.h and
  // config_keys.cc.
  std::span<const NeutralKey> neutral = {};
};

// Which layers have a window, if config.json has no layer_types.
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
  // The key of the rotation base of layers with a window. These layers ignore the scaling of
  // positions. Empty: they rotate as all other layers do.
  std::string_view rope_theta_key = {};
  double default_rope_theta = 10000.0;  // without that key
};

struct ModelFamily {
  std::string_view name;          // model_type of config.json, general.architecture of GGUF
  std::string_view architecture;  // of config.json's "architectures"
  ConfigKeys keys = {};
  NormKind norm = NormKind::kRms;
  PositionKind positions = PositionKind::kRotary;
  MlpKind mlp = MlpKind::kSwiGlu;  // if config.json has no such key
  bool qk_norm = false;            // an RMSNorm over each q and k head, before rotation
  // The architecture has these biases for any config.json.
  bool always_qkv_bias = false;
  bool always_all_biases = false;
  bool may_have_mlp_bias = false;  // if the key mlp_bias says so
  // Used if config.json has no such key:
  bool tied_by_default = false;  // the logits are products with the token embedding
  double default_norm_eps = 1e-6;
  uint32_t default_head_dim = 0;           // 0: hidden size / heads
  uint32_t default_intermediate_size = 0;  // times the hidden size; 0: config.json must say
  WindowRule windows = {};
  TensorNames hugging_face = {};
  TensorNames gguf = {};
};

// The families of families/registry.cc, then the families that were added with RegisterModelFamily.
// A further call of RegisterModelFamily invalidates the span.
std::span<const ModelFamily* const> ModelFamilies();
// Finds a family by name; null if there is none.
const ModelFamily* FindModelFamily(std::string_view name);
// Adds a family to those of registry.cc. Call before a model is loaded, from one thread. For
// families outside this repository, and for tests. The family must outlive all use of models. Does
// nothing if this object is there already. Dies if another family has its name or architecture.
void RegisterModelFamily(const ModelFamily& family);

}  // namespace lockstep
