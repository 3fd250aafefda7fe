#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/model_files/gguf.h"
#include "common/sampling_numbers.h"

// A checkpoint's architecture in one form. It comes from config.json and generation_config.json of
// a Hugging Face folder, or from the metadata of a GGUF file. If some known model computes with a
// key and we do not implement it, the key is never ignored: the error names file, key and value.
// Other unknown keys cost a warning.
namespace lockstep {

struct ModelFamily;  // model_family.h

enum class NormKind {
  kRms,    // RMSNorm: a weight
  kLayer,  // LayerNorm: subtracts the mean; a weight and a bias
};
enum class MlpKind {
  kSwiGlu,    // silu(gate) * up
  kGeluTanh,  // gelu by the formula with tanh, "gelu_new"
  kGeluErf,   // gelu by the error function
};
// Whether there are two matrices, gate and up, whose outputs are multiplied.
constexpr bool IsGated(MlpKind kind) { return kind == MlpKind::kSwiGlu; }
enum class PositionKind {
  kRotary,   // q and k are rotated
  kLearned,  // an embedding of the position is added to the token's
};

enum class RopeScalingKind { kNone, kLinear, kLlama3, kYarn };

// Parameters of rotary position embeddings, as transformers' modeling_rope_utils defines them.
struct RopeConfig {
  double theta = 10000.0;
  RopeScalingKind scaling = RopeScalingKind::kNone;
  double factor = 1.0;                  // linear, llama3, yarn
  double low_freq_factor = 1.0;         // llama3
  double high_freq_factor = 4.0;        // llama3
  uint32_t original_max_positions = 0;  // llama3, yarn
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
  std::optional<double> yarn_attention_factor = std::nullopt;  // default: 0.1 ln(factor) + 1
  std::optional<double> yarn_mscale = std::nullopt;
  std::optional<double> yarn_mscale_all_dim = std::nullopt;
  bool yarn_truncate = true;
  // GGUF files with llama3 scaling (rope_freqs.weight) carry the formula's result instead of its
  // parameters: head_dim / 2 divisors of the unscaled frequencies. If not empty, `scaling` is
  // kLlama3 and these replace the formula.
  std::vector<float> frequency_divisors = {};

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct LayerKindConfig {
  // A token reads itself and the window_tokens - 1 tokens before it. 0: all tokens before it.
  uint32_t window_tokens = 0;
  RopeConfig rope = {};

  friend bool operator==(const LayerKindConfig&, const LayerKindConfig&) = default;
};

struct ModelConfig {
  const ModelFamily* family = nullptr;  // never null in a valid config
  std::string name;                     // for people: the folder, or GGUF's general.name
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  uint32_t num_layers = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocab_size = 0;
  uint32_t max_context_tokens = 0;  // after the scaling of positions
  NormKind norm = NormKind::kRms;
  double norm_eps = 1e-6;
  MlpKind mlp = MlpKind::kSwiGlu;
  PositionKind positions = PositionKind::kRotary;
  bool tie_word_embeddings = false;
  bool attention_qkv_bias = false;  // Qwen2; Llama's attention_bias sets this and the next
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // Qwen3: RMSNorm over head_dim on q and k before RoPE
  RopeConfig rope;       // of rotary positions
  // Layers that differ from each other. Empty: all layers are alike, read all tokens before them,
  // and rotate as `rope` says.
  std::vector<LayerKindConfig> layer_kinds;
  std::vector<uint8_t> kind_of_layer;  // [num_layers], indices into layer_kinds; empty: all 0
  // The end ids of all files, sorted, without repeats, all in the vocabulary.
  std::vector<TokenId> eos_token_ids;
  std::optional<TokenId> bos_token_id;
  SamplingNumbers generation_defaults;  // of generation_config.json or general.sampling
  // Settings of the files that this program does not follow, each a line for the log. A program
  // that loads a model logs them once.
  std::vector<std::string> warnings;

  // Reports every violation (sizes of zero, heads not divisible by KV heads, odd head_dim, ...).
  absl::Status Validate() const;
  // Equal for equal computations: hashes everything that alters logits, nothing else.
  uint64_t Fingerprint() const;
};

// `config_json` and `generation_config_json` are the files' texts; the latter may be empty.
// `name` stands for the folder in errors.
absl::StatusOr<ModelConfig> ModelConfigFromJson(std::string_view config_json,
                                                std::string_view generation_config_json,
                                                const std::string& name);
absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file);

// Adds ids to the end ids. An id that is not in the vocabulary costs a warning instead. `source`
// says where the ids come from.
void AddEndIds(std::span<const TokenId> ids, std::string_view source, ModelConfig* config);

// `path` is a folder with config.json or a GGUF file.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& path);

// True if `path` ends with ".gguf", or is a regular file that begins like a GGUF file. Every reader
// of models calls this, so that all of them read a file in the same way.
bool IsGgufPath(const std::string& path);

}  // namespace lockstep
