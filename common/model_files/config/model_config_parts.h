#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/json/json.h"
#include "common/model_files/file_kind.h"
#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"

// Shared parts of the readers of model configs. Internal.
namespace lockstep {

// INVALID_ARGUMENT names the first key of the table that has no neutral value. Marks all as read.
absl::Status CheckNeutralKeys(JsonObjectReader& reader, std::span<const NeutralKey> table);
// Call after the other keys of a config.json were read. INVALID_ARGUMENT for a key that some known
// model computes with, unless its value is neutral. One warning names all other keys.
absl::Status CheckOtherKeys(JsonObjectReader& reader, const std::string& file_name,
                            ModelConfig* config);
// Foreign names for a message: escaped, and at most 20 of at most 64 bytes.
std::string ListNames(std::span<const std::string> names);

// Members that are sizes or counts.
absl::StatusOr<std::optional<uint32_t>> ReadUint32(JsonObjectReader& reader, std::string_view key);

// An id or a list of ids, as in eos_token_id. Sorted, without repeats; empty if absent.
absl::StatusOr<std::vector<TokenId>> ReadTokenIds(JsonObjectReader& reader, std::string_view key);

// Reads rope_theta, rope_scaling and rope_parameters of a config.json into `config->rope`.
absl::Status ReadRope(JsonObjectReader& reader, const std::string& file_name, ModelConfig* config);
// The context length after scaling, as vLLM computes it from the file's `max_context_tokens`.
// Linear scaling multiplies it. YaRN multiplies the original context, unless the file has a longer
// one.
uint32_t ScaledContext(const RopeConfig& rope, uint32_t max_context_tokens);

// Reads which layers have a window into `config->layer_kinds` and `config->kind_of_layer`. Call
// after reading rotation and context: a window that is not shorter than the context does not count.
// INVALID_ARGUMENT for a window in a file of a family without windows.
absl::Status ReadWindows(JsonObjectReader& reader, ModelConfig* config);
// Read for families that have such a pattern only.
inline constexpr std::string_view kWindowPatternKey = "sliding_window_pattern";

// Takes one sampling default of a model's file. It may have the values that a request may have. Any
// other value costs a warning, and the number stays off. `where`: the key, for the warning.
void TakeDefault(const SamplingNumber& number, double value, std::string_view where,
                 ModelConfig* config);

// Takes end ids and sampling defaults from the text of a generation_config.json. A default that
// cannot be served costs a warning. The error is that the text is no JSON object.
absl::Status ApplyGenerationConfig(std::string_view text, const std::string& file_name,
                                   ModelConfig* config);

}  // namespace lockstep
