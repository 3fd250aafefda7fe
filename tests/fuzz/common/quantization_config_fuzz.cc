// config.json with a quantization_config, and the name of a module behind the first NUL byte.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/check.h"
#include "common/model_files/quantization/quantization_config.h"
#include "common/status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::QuantizationConfig;
  using lockstep::WeightScheme;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t border = text.find('\0');
  const std::string_view module =
      border == std::string_view::npos ? "model.layers.0.mlp.up_proj" : text.substr(border + 1);
  const absl::StatusOr<std::optional<QuantizationConfig>> config =
      lockstep::QuantizationConfigFromJson(text.substr(0, border), "fuzz");
  if (!config.ok()) {
    LOCKSTEP_CHECK(lockstep::Message(config.status()).starts_with("fuzz"),
                   "an error does not name the file");
    return 0;
  }
  if (!config->has_value()) return 0;
  const absl::StatusOr<std::optional<WeightScheme>> scheme = (*config)->SchemeOf(module);
  if (!scheme.ok() || !scheme->has_value()) return 0;
  LOCKSTEP_CHECK((*scheme)->bits == 4 || (*scheme)->bits == 8, "{} bits", (*scheme)->bits);
  LOCKSTEP_CHECK(
      ((*scheme)->extent == lockstep::ScaleExtent::kGroup) == ((*scheme)->group_size > 0),
      "groups of {}", (*scheme)->group_size);
  return 0;
}
