#include "common/model_files/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "common/hash.h"
#include "common/model_files/file_kind.h"
#include "common/model_files/gguf.h"
#include "common/model_files/model_family.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "common/violations.h"

namespace lockstep {
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;
// Bounds far above any real model, so that products of sizes cannot overflow anywhere.
constexpr uint32_t kMaxWidth = 1 << 20;
constexpr uint32_t kMaxLayers = 1 << 12;
constexpr uint32_t kMaxHeads = 1 << 14;
constexpr uint32_t kMaxHeadDim = 1 << 12;
constexpr uint32_t kMaxVocab = 1 << 24;
constexpr uint32_t kMaxContext = 1 << 24;
constexpr size_t kMaxLayerKinds = 256;  // indices are bytes
// The tables of cosines and sines have one of each for every position and pair of dims. Each kind
// of layers may have tables of its own.
constexpr uint64_t kMaxRotaryBytes = uint64_t{8} << 30;

void RequireInRange(Violations& violations, std::string_view name, uint32_t value, uint32_t max) {
  violations.Require(value >= 1 && value <= max, "{} is {}, expected 1 to {}", name, value, max);
}

bool IsPositive(double value) { return std::isfinite(value) && value > 0.0; }

void CheckRope(const RopeConfig& rope, uint32_t head_dim, Violations& violations) {
  violations.Require(IsPositive(rope.theta) && rope.theta > 1.0, "rope theta is {}, expected > 1",
                     rope.theta);
  if (rope.scaling == RopeScalingKind::kNone) return;
  if (!rope.frequency_divisors.empty()) {
    violations.Require(rope.scaling == RopeScalingKind::kLlama3,
                       "frequency divisors without llama3 scaling");
    violations.Require(rope.frequency_divisors.size() == head_dim / 2,
                       "there are {} frequency divisors, expected {}, half of the head dimension",
                       rope.frequency_divisors.size(), head_dim / 2);
    for (const float divisor : rope.frequency_divisors) {
      if (IsPositive(divisor)) continue;
      violations.Require(false, "a frequency divisor is {}, expected > 0", divisor);
      break;
    }
    return;
  }
  violations.Require(std::isfinite(rope.factor) && rope.factor >= 1.0,
                     "rope factor is {}, expected >= 1", rope.factor);
  if (rope.scaling == RopeScalingKind::kLinear) return;
  violations.Require(rope.original_max_positions >= 1,
                     "original context length of rope scaling is 0");
  if (rope.scaling == RopeScalingKind::kLlama3) {
    violations.Require(IsPositive(rope.low_freq_factor) && std::isfinite(rope.high_freq_factor) &&
                           rope.high_freq_factor > rope.low_freq_factor,
                       "rope frequency factors are {} (low) and {} (high), expected 0 < low < high",
                       rope.low_freq_factor, rope.high_freq_factor);
    return;
  }
  violations.Require(IsPositive(rope.yarn_beta_slow) && std::isfinite(rope.yarn_beta_fast) &&
                         rope.yarn_beta_fast > rope.yarn_beta_slow,
                     "yarn betas are {} (slow) and {} (fast), expected 0 < slow < fast",
                     rope.yarn_beta_slow, rope.yarn_beta_fast);
  for (const std::optional<double>& value :
       {rope.yarn_attention_factor, rope.yarn_mscale, rope.yarn_mscale_all_dim}) {
    violations.Require(!value || IsPositive(*value),
                       "a yarn attention factor or mscale is {}, expected > 0",
                       value.value_or(0.0));
  }
}

std::string DescribeRope(const RopeConfig& rope) {
  std::string text = fmt::format("{:a} {}", rope.theta, static_cast<int>(rope.scaling));
  if (!rope.frequency_divisors.empty()) {
    return fmt::format("{} {:a}", text, fmt::join(rope.frequency_divisors, ","));
  }
  if (rope.scaling == RopeScalingKind::kNone) return text;
  text += fmt::format(" {:a}", rope.factor);
  if (rope.scaling == RopeScalingKind::kLinear) return text;
  text += fmt::format(" {}", rope.original_max_positions);
  if (rope.scaling == RopeScalingKind::kLlama3) {
    return fmt::format("{} {:a} {:a}", text, rope.low_freq_factor, rope.high_freq_factor);
  }
  return fmt::format("{} {:a} {:a} {:a} {:a} {:a} {}", text, rope.yarn_beta_fast,
                     rope.yarn_beta_slow, rope.yarn_attention_factor.value_or(0.0),
                     rope.yarn_mscale.value_or(0.0), rope.yarn_mscale_all_dim.value_or(0.0),
                     rope.yarn_truncate);
}

void CheckLayerKinds(const ModelConfig& config, Violations& violations) {
  const std::vector<LayerKindConfig>& kinds = config.layer_kinds;
  const std::vector<uint8_t>& kind_of_layer = config.kind_of_layer;
  violations.Require(kinds.size() <= kMaxLayerKinds,
                     "there are {} kinds of layers, expected at most {}", kinds.size(),
                     kMaxLayerKinds);
  for (size_t i = 0; i < kinds.size(); ++i) {
    Violations of_kind;
    CheckRope(kinds[i].rope, config.head_dim, of_kind);
    violations.Merge(of_kind.ToStatus(), fmt::format("kind {} of layers: ", i));
  }
  if (kind_of_layer.empty()) return;
  violations.Require(kind_of_layer.size() == config.num_layers,
                     "there are kinds of {} layers, but {} layers", kind_of_layer.size(),
                     config.num_layers);
  for (size_t i = 0; i < kind_of_layer.size(); ++i) {
    if (kind_of_layer[i] < kinds.size()) continue;
    violations.Require(false, "layer {} is of kind {}, but there are {} kinds", i, kind_of_layer[i],
                       kinds.size());
    break;
  }
}

std::string DescribeLayerKinds(const ModelConfig& config) {
  std::string text;
  for (const LayerKindConfig& kind : config.layer_kinds) {
    text += fmt::format(" kind {} rope {}", kind.window_tokens, DescribeRope(kind.rope));
  }
  return fmt::format("{} of layers {}", text, fmt::join(config.kind_of_layer, ","));
}

}  // namespace

absl::Status ModelConfig::Validate() const {
  Violations violations;
  RequireInRange(violations, "hidden size", hidden_size, kMaxWidth);
  RequireInRange(violations, "intermediate size", intermediate_size, kMaxWidth);
  RequireInRange(violations, "number of layers", num_layers, kMaxLayers);
  RequireInRange(violations, "number of heads", num_heads, kMaxHeads);
  RequireInRange(violations, "number of KV heads", num_kv_heads, kMaxHeads);
  RequireInRange(violations, "head dimension", head_dim, kMaxHeadDim);
  RequireInRange(violations, "vocabulary size", vocab_size, kMaxVocab);
  RequireInRange(violations, "context length", max_context_tokens, kMaxContext);
  violations.Require(num_kv_heads == 0 || num_heads % num_kv_heads == 0,
                     "number of heads {} is not a multiple of the number of KV heads {}", num_heads,
                     num_kv_heads);
  violations.Require(head_dim % 2 == 0, "head dimension {} is odd", head_dim);
  // Models with learned positions have these tables too, for a rotation by zero, so the same bound
  // applies.
  const uint64_t num_tables = std::clamp<uint64_t>(layer_kinds.size(), 1, kMaxLayerKinds);
  const uint64_t rotary_bytes =
      uint64_t{max_context_tokens} * head_dim * sizeof(float) * num_tables;
  violations.Require(rotary_bytes <= kMaxRotaryBytes,
                     "context length {} with head dimension {} needs rotary tables of {} bytes, "
                     "expected at most {}",
                     max_context_tokens, head_dim, rotary_bytes, kMaxRotaryBytes);
  violations.Require(IsPositive(norm_eps), "norm epsilon is {}, expected > 0", norm_eps);
  violations.Require(family != nullptr, "the model has no family");
  CheckRope(rope, head_dim, violations);
  CheckLayerKinds(*this, violations);
  for (const TokenId id : eos_token_ids) {
    violations.Require(id < vocab_size, "end token id {} is not below the vocabulary size {}", id,
                       vocab_size);
  }
  violations.Require(!bos_token_id || *bos_token_id < vocab_size,
                     "begin token id {} is not below the vocabulary size {}",
                     bos_token_id.value_or(0), vocab_size);
  return violations.ToStatus();
}

uint64_t ModelConfig::Fingerprint() const {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {:a} {} {} {} {} {} rope {}", family->name, hidden_size,
                  intermediate_size, num_layers, num_heads, num_kv_heads, head_dim, vocab_size,
                  norm_eps, tie_word_embeddings, attention_qkv_bias, attention_output_bias,
                  mlp_bias, qk_norm, DescribeRope(rope));
  // These kinds of parts were added later. A model without them keeps its fingerprint.
  if (norm != NormKind::kRms) text += " layer norm";
  if (mlp != MlpKind::kSwiGlu) text += fmt::format(" mlp {}", static_cast<int>(mlp));
  if (positions != PositionKind::kRotary) {
    text += fmt::format(" learned positions {}", max_context_tokens);
  }
  if (!layer_kinds.empty()) text += DescribeLayerKinds(*this);
  return Hash64(text);
}

bool IsGgufPath(const std::string& path) {
  if (path.ends_with(".gguf")) return true;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::array<char, kGgufMagic.size()> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  return std::string_view(start.data(), start.size()) == kGgufMagic;
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& path) {
  if (IsGgufPath(path)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    return ModelConfigFromGguf(file);
  }
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (!exists && !error) return NotFound("{}: there is no such file or folder", path);
  if (exists && !std::filesystem::is_directory(path, error)) {
    return InvalidArgument("{}: expected a GGUF file or a folder with config.json{}", path,
                           DescribeModelPath(path));
  }
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (!std::filesystem::exists(folder + "/config.json", error) && !error) {
    return NotFound("{}/config.json: there is no such file{}", folder, DescribeModelPath(folder));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string config_text,
                            ReadTextFile(folder + "/config.json", kMaxConfigBytes));
  absl::StatusOr<std::string> generation_text =
      ReadTextFile(folder + "/generation_config.json", kMaxConfigBytes);
  if (absl::IsNotFound(generation_text.status())) generation_text = std::string();
  if (!generation_text.ok()) return generation_text.status();
  return ModelConfigFromJson(config_text, *generation_text, folder);
}

}  // namespace lockstep
