#include <algorithm>
#include <optional>
#include <utility>

#include "common/model_files/config/model_config_parts.h"
#include "common/model_files/model_family.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// The keys about windows.
struct WindowKeys {
  bool is_off = false;                  // use_sliding_window says that no layer has a window
  std::optional<uint32_t> tokens;       // of sliding_window, or the family's default
  std::optional<uint32_t> first_layer;  // of max_window_layers
  std::optional<uint32_t> pattern;      // of sliding_window_pattern, if the family reads it
  bool covers_context = false;          // a window of `tokens` changes nothing
};

absl::StatusOr<WindowKeys> ReadWindowKeys(JsonObjectReader& reader, const ModelConfig& config) {
  const WindowRule& rule = config.family->windows;
  const bool has_windows = rule.layers != WindowLayers::kNone;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> used, reader.Bool("use_sliding_window"));
  const bool says_null = reader.IsNull("sliding_window");
  WindowKeys keys;
  LOCKSTEP_ASSIGN_OR_RETURN(keys.tokens, ReadUint32(reader, "sliding_window"));
  LOCKSTEP_ASSIGN_OR_RETURN(keys.first_layer, ReadUint32(reader, "max_window_layers"));
  if (has_windows) {
    keys.is_off = rule.needs_switch && used != true;
    const bool says_nothing = !keys.tokens && !says_null;
    if (says_nothing && !keys.is_off) keys.tokens = rule.default_window;
  } else {
    keys.is_off = used == false;
    if (keys.tokens == 0u) keys.tokens = std::nullopt;
  }
  if (rule.layers == WindowLayers::kPattern) {
    LOCKSTEP_ASSIGN_OR_RETURN(keys.pattern, ReadUint32(reader, kWindowPatternKey));
  }
  keys.covers_context = keys.tokens && *keys.tokens >= config.max_context_tokens;
  return keys;
}

// Reads layer_types: true for each layer with a window.
absl::StatusOr<std::vector<bool>> ReadLayerTypes(const JsonObjectReader& reader, const Json& types,
                                                 const ModelConfig& config) {
  if (!types.is_array() || types.size() != config.num_layers) {
    return InvalidArgument("{} is {}, expected a type for each of the {} layers",
                           reader.Where("layer_types"), DescribeJson(types), config.num_layers);
  }
  std::vector<bool> has_window;
  for (const Json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return InvalidArgument("{}[{}] is {}, expected \"full_attention\" or \"sliding_attention\"",
                             reader.Where("layer_types"), has_window.size(), DescribeJson(type));
    }
    has_window.push_back(type == "sliding_attention");
  }
  return has_window;
}

// The same without layer_types.
absl::StatusOr<std::vector<bool>> ApplyRule(const JsonObjectReader& reader, const WindowKeys& keys,
                                            const ModelConfig& config) {
  const WindowRule& rule = config.family->windows;
  const bool has_tokens = !keys.is_off && keys.tokens;
  std::vector<bool> has_window(config.num_layers, false);
  switch (rule.layers) {
    case WindowLayers::kNone:
    case WindowLayers::kAll:
      has_window.assign(config.num_layers, has_tokens);
      break;
    case WindowLayers::kLatter: {
      constexpr uint32_t kDefaultFirstLayer = 28;  // of transformers
      for (uint32_t i = keys.first_layer.value_or(kDefaultFirstLayer); i < config.num_layers; ++i) {
        has_window[i] = has_tokens;
      }
      break;
    }
    case WindowLayers::kPattern: {
      const uint32_t pattern = keys.pattern.value_or(rule.default_pattern);
      if (pattern == 0) {
        return InvalidArgument("{} is 0, expected an integer > 0", reader.Where(kWindowPatternKey));
      }
      for (uint32_t i = 0; i < config.num_layers; ++i) has_window[i] = (i + 1) % pattern != 0;
      break;
    }
  }
  return has_window;
}

// Checks that the window of `layer` can be served. `in_list`: layer_types gives it a window.
absl::Status CheckWindow(const JsonObjectReader& reader, const WindowKeys& keys,
                         const ModelConfig& config, bool in_list, size_t layer) {
  if (config.family->windows.layers == WindowLayers::kNone) {
    const std::string what =
        in_list ? fmt::format("{}[{}] is \"sliding_attention\"", reader.Where("layer_types"), layer)
                : fmt::format("{} is {}", reader.Where("sliding_window"), keys.tokens.value_or(0));
    return InvalidArgument("{}: attention over a sliding window is not supported for {}", what,
                           config.family->name);
  }
  if (keys.is_off) {
    return InvalidArgument("{} is not true, but layer {} has a window",
                           reader.Where("use_sliding_window"), layer);
  }
  if (!keys.tokens || *keys.tokens == 0) {
    return InvalidArgument("{} is {}, but layer {} has a window; expected an integer > 0",
                           reader.Where("sliding_window"), keys.tokens ? "0" : "null", layer);
  }
  return absl::OkStatus();
}

absl::StatusOr<LayerKindConfig> ReadWindowKind(JsonObjectReader& reader, const WindowKeys& keys,
                                               const ModelConfig& config) {
  const WindowRule& rule = config.family->windows;
  LayerKindConfig kind{.window_tokens = keys.covers_context ? 0 : keys.tokens.value_or(0),
                       .rope = config.rope};
  if (rule.rope_theta_key.empty()) return kind;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> theta, reader.Number(rule.rope_theta_key));
  kind.rope = {.theta = theta.value_or(rule.default_rope_theta)};
  return kind;
}

// `has_window` of each layer.
void SetKinds(const std::vector<bool>& has_window, const LayerKindConfig& window_kind,
              ModelConfig* config) {
  const LayerKindConfig full_kind{.window_tokens = 0, .rope = config->rope};
  if (std::ranges::find(has_window, true) == has_window.end() || window_kind == full_kind) return;
  if (std::ranges::find(has_window, false) == has_window.end()) {
    config->layer_kinds = {window_kind};
    return;
  }
  // The kind of the first layer comes first.
  config->layer_kinds = {full_kind, window_kind};
  if (has_window.front()) std::swap(config->layer_kinds[0], config->layer_kinds[1]);
  for (const bool window : has_window) {
    config->kind_of_layer.push_back(window == has_window.front() ? 0 : 1);
  }
}

}  // namespace

absl::Status ReadWindows(JsonObjectReader& reader, ModelConfig* config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const WindowKeys keys, ReadWindowKeys(reader, *config));
  const Json* types = reader.Find("layer_types");
  std::vector<bool> has_window;
  if (types != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(has_window, ReadLayerTypes(reader, *types, *config));
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(has_window, ApplyRule(reader, keys, *config));
  }
  const auto first = std::ranges::find(has_window, true);
  if (first != has_window.end() && !keys.covers_context) {
    const auto layer = static_cast<size_t>(first - has_window.begin());
    LOCKSTEP_RETURN_IF_ERROR(CheckWindow(reader, keys, *config, types != nullptr, layer));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const LayerKindConfig kind, ReadWindowKind(reader, keys, *config));
  SetKinds(has_window, kind, config);
  return absl::OkStatus();
}

}  // namespace lockstep
