// config.json and generation_config.json, separated by the first NUL byte.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "common/model_files/model_config.h"
#include "common/status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::ModelConfig;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t border = text.find('\0');
  const std::string_view generation =
      border == std::string_view::npos ? "" : text.substr(border + 1);
  const absl::StatusOr<ModelConfig> config =
      lockstep::ModelConfigFromJson(text.substr(0, border), generation, "fuzz");
  if (config.ok()) {
    LOCKSTEP_CHECK(config->Validate().ok(), "an invalid config was accepted");
    LOCKSTEP_CHECK(config->Fingerprint() == ModelConfig(*config).Fingerprint(),
                   "fingerprints differ");
  } else {
    LOCKSTEP_CHECK(lockstep::Message(config.status()).starts_with("fuzz"),
                   "an error does not name the file");
  }
  return 0;
}
