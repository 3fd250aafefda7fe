#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/json/json.h"
#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"

// Internal to the readers of model configs: what they share.
namespace lockstep {

// INVALID_ARGUMENT naming the first key of the table whose value is not neutral. Marks all as read.
absl::Status CheckNeutralKeys(JsonObjectReader& reader, std::span<const NeutralKey> table);

// Members that are sizes or counts.
absl::StatusOr<std::optional<uint32_t>> ReadUint32(JsonObjectReader& reader, std::string_view key);

// An id or a list of ids, as eos_token_id is written: sorted, without repeats; empty when absent.
absl::StatusOr<std::vector<TokenId>> ReadTokenIds(JsonObjectReader& reader, std::string_view key);

// Reads rope_theta, rope_scaling and rope_parameters of a config.json.
absl::StatusOr<RopeConfig> ReadRopeConfig(JsonObjectReader& reader, const std::string& file_name,
                                          uint32_t max_context_tokens);

// Takes end ids and sampling defaults from the text of a generation_config.json.
absl::Status ApplyGenerationConfig(std::string_view text, const std::string& file_name,
                                   ModelConfig* config);

}  // namespace lockstep
