#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/quantization/module_pattern.h"

// The quantization_config of a config.json: how the weights of each module are stored. An unknown
// key or value is refused by name, because it could alter the weights.
namespace lockstep {

// The layout in the file. docs/formats.md lists the tensors of each.
enum class WeightFormat {
  kPackQuantized,   // compressed-tensors: integers in int32 words
  kIntQuantized,    // compressed-tensors: int8
  kFloatQuantized,  // E4M3 with weight_scale: compressed-tensors, ModelOpt, "fp8" without blocks
  kFp8Block,        // E4M3 with weight_scale_inv, one a block
  kAwq,             // the layout "gemm"
  kGptq,
  kNvfp4,          // compressed-tensors: the global scale divides
  kNvfp4ModelOpt,  // ModelOpt: the global scale multiplies
  kMxfp4,          // gpt-oss: blocks of all experts in one tensor
  kMxfp4Packed,    // compressed-tensors
};
std::string_view WeightFormatName(WeightFormat format);

// Which weights share one scale.
enum class ScaleExtent { kTensor, kChannel, kGroup, kBlock };

// The authors' expectation for activations. Weight-only products may ignore it.
enum class ActivationScheme { kUnquantized, kDynamic, kStatic };

struct WeightScheme {
  WeightFormat format = WeightFormat::kPackQuantized;
  uint32_t bits = 0;      // of a code
  bool symmetric = true;  // no zero points
  ScaleExtent extent = ScaleExtent::kGroup;
  uint32_t group_size = 0;                     // columns, if kGroup
  uint32_t block_rows = 0, block_columns = 0;  // if kBlock
  bool act_order = false;                      // GPTQ: g_idx may permute the groups
  bool zeros_minus_one = false;                // GPTQ v1: the file stores zero points - 1
  ActivationScheme activations = ActivationScheme::kUnquantized;

  friend bool operator==(const WeightScheme&, const WeightScheme&) = default;
};

// kv_cache_scheme: scales of keys and values in the checkpoint.
struct KvCacheScheme {
  uint32_t bits = 8;
  bool is_float = true;
  bool dynamic = false;

  friend bool operator==(const KvCacheScheme&, const KvCacheScheme&) = default;
};

class QuantizationConfig {
 public:
  // One rule: modules that match one of `patterns` have `scheme`, or no scheme.
  struct Rule {
    std::vector<ModulePattern> patterns;
    std::optional<WeightScheme> scheme;
  };

  QuantizationConfig(std::string method, std::vector<Rule> rules,
                     std::optional<KvCacheScheme> kv_cache)
      : method_(std::move(method)), rules_(std::move(rules)), kv_cache_(kv_cache) {}

  const std::string& method() const { return method_; }  // "compressed-tensors"
  const std::optional<KvCacheScheme>& kv_cache() const { return kv_cache_; }

  // The scheme of the first rule that matches. None: the weights are not quantised. `module`: a
  // linear one, "model.layers.0.mlp.down_proj". Embeddings and norms are never quantised.
  absl::StatusOr<std::optional<WeightScheme>> SchemeOf(std::string_view module) const;

 private:
  std::string method_;
  std::vector<Rule> rules_;
  std::optional<KvCacheScheme> kv_cache_;
};

// Reads quantization_config (or compression_config, its older name) of the text of a config.json.
// None if there is none. `name`: of the file, for errors.
absl::StatusOr<std::optional<QuantizationConfig>> QuantizationConfigFromJson(
    std::string_view config_json, const std::string& name);

// Older tools write the same data into these files next to config.json: ModelOpt and AutoGPTQ. They
// are read if config.json has none.
inline constexpr std::string_view kModelOptConfigFile = "hf_quant_config.json";
inline constexpr std::string_view kGptqConfigFile = "quantize_config.json";
// `name`: the path, which ends with one of the two. INVALID_ARGUMENT for another.
absl::StatusOr<QuantizationConfig> QuantizationConfigFromOlderFile(std::string_view text,
                                                                   const std::string& name);

// Reads a folder's files: config.json, or else an older file. None if there is no such data.
absl::StatusOr<std::optional<QuantizationConfig>> LoadQuantizationConfig(const std::string& folder);

}  // namespace lockstep
