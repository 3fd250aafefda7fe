#include "common/model_files/config/gguf_architecture_reader.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "common/model_files/config/model_config_parts.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep {
namespace {

// Some model of llama.cpp computes something else with these keys than without them, and we do not
// implement it.
constexpr std::string_view kComputingKeys[] = {
    "altup.active_idx",
    "attention.group_norm_epsilon",
    "attention.group_norm_groups",
    "attention.key_length_mla",
    "attention.kv_lora_rank",
    "attention.output_scale",
    "attention.q_lora_rank",
    "attention.relative_buckets_count",
    "attention.scale",
    "attention.shared_kv_layers",
    "attention.sliding_window_pattern",
    "attention.temperature_length",
    "attention.temperature_scale",
    "attention.value_length_mla",
    "embedding_length_per_layer_input",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_group_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_weights_norm",
    "expert_weights_scale",
    "full_attention_interval",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "moe_every_n_layers",
    "nextn_predict_layers",
    "num_deepstack_layers",
    "rescale_every_n_layers",
    "rope.dimension_sections",
    "rope.freq_base_swa",
    "router_logit_softcapping",
    "shortconv.l_cache",
    "swin_norm",
    "token_shift_count",
};
// Whole groups of such keys.
constexpr std::string_view kComputingPrefixes[] = {"activation_sparsity",
                                                   "attention.indexer.",
                                                   "convnext.",
                                                   "posnet.",
                                                   "rope.scaling.",
                                                   "ssm.",
                                                   "wkv.",
                                                   "xielu."};

bool IsComputing(std::string_view name) {
  return std::ranges::find(kComputingKeys, name) != std::end(kComputingKeys) ||
         std::ranges::any_of(kComputingPrefixes,
                             [name](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

absl::StatusOr<std::optional<uint32_t>> ReadUint32(const GgufFile& file, std::string_view key) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  if (file.Find(key) == nullptr) return std::optional<uint32_t>();
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t value, file.GetUint(key));
  if (value > kMax) {
    return InvalidArgument("{}: metadata key {} is {}, expected at most {}", file.name(), key,
                           value, kMax);
  }
  return std::optional(static_cast<uint32_t>(value));
}

absl::StatusOr<uint32_t> ArchitectureReader::RequireUint(std::string_view name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> value, Uint(name));
  if (!value) return Refuse(name, "missing", "an integer > 0");
  return *value;
}

absl::StatusOr<std::optional<double>> ArchitectureReader::Float(std::string_view name) {
  const std::string key = MarkRead(name);
  if (file_.Find(key) == nullptr) return std::optional<double>();
  LOCKSTEP_ASSIGN_OR_RETURN(const double value, file_.GetFloat(key));
  return std::optional(value);
}

absl::Status ArchitectureReader::CheckNeutral(std::string_view name, double neutral) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> value, Float(name));
  if (!value || *value == neutral) return absl::OkStatus();
  return Refuse(name, fmt::format("{}", *value), fmt::format("{} or nothing", neutral));
}

absl::Status ArchitectureReader::CheckNeutralFlag(std::string_view name, bool neutral) {
  const std::string key = MarkRead(name);
  if (file_.Find(key) == nullptr) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const bool value, file_.GetBool(key));
  if (value == neutral) return absl::OkStatus();
  return Refuse(name, fmt::format("{}", value), fmt::format("{} or nothing", neutral));
}

absl::Status ArchitectureReader::CheckOtherKeys(ModelConfig* config) const {
  std::vector<std::string> ignored;
  for (const std::string_view key : file_.Keys()) {
    if (!key.starts_with(prefix_) || std::ranges::find(read_, key) != read_.end()) continue;
    if (IsComputing(key.substr(prefix_.size()))) {
      return InvalidArgument(
          "{}: metadata key {} would alter the result and is not supported; expected no such key",
          file_.name(), ShownName(key));
    }
    ignored.emplace_back(key);
  }
  if (!ignored.empty()) {
    config->warnings.push_back(
        fmt::format("{}: metadata keys that no known model computes with are ignored: {}",
                    file_.name(), ListNames(ignored)));
  }
  return absl::OkStatus();
}

absl::Status ArchitectureReader::Refuse(std::string_view name, std::string_view value,
                                        std::string_view expected) const {
  return InvalidArgument("{}: metadata key {} is {}, expected {}", file_.name(), Key(name), value,
                         expected);
}

}  // namespace lockstep
