#include <utility>

#include "common/model_files/model_config_parts.h"
#include "common/status.h"

namespace lockstep {
namespace {

// Defaults that would change the text, and are not implemented. Keys that are neither in this table
// nor read below only tune transformers itself.
constexpr NeutralKey kNeutralGenerationKeys[] = {
    {"bad_words_ids", "[]"},
    {"begin_suppress_tokens", "[]"},
    {"diversity_penalty", "0"},
    {"dola_layers", "[]"},
    {"encoder_no_repeat_ngram_size", "0"},
    {"encoder_repetition_penalty", "1"},
    {"epsilon_cutoff", "0"},
    {"eta_cutoff", "0"},
    {"exponential_decay_length_penalty", "[]"},
    {"forced_bos_token_id", "[]"},
    {"forced_eos_token_id", "[]"},
    {"guidance_scale", "1"},
    {"min_length", "0"},
    {"min_new_tokens", "0"},
    {"no_repeat_ngram_size", "0"},
    {"num_beam_groups", "1"},
    {"num_beams", "1"},
    {"penalty_alpha", "0"},
    {"sequence_bias", "[]"},
    {"stop_strings", "[]"},
    {"suppress_tokens", "[]"},
    {"top_h", "1"},
    {"typical_p", "1"},
    {"watermarking_config", "{}"},
};

// The numbers that transformers reads.
constexpr std::pair<std::string_view, float SamplingNumbers::*> kNumberKeys[] = {
    {"temperature", &SamplingNumbers::temperature},
    {"top_p", &SamplingNumbers::top_p},
    {"min_p", &SamplingNumbers::min_p},
    {"repetition_penalty", &SamplingNumbers::repetition_penalty},
};

}  // namespace

absl::Status ApplyGenerationConfig(std::string_view text, const std::string& file_name,
                                   ModelConfig* config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, file_name));
  if (!root.is_object()) {
    return InvalidArgument("{}: the file is {}, expected an object", file_name, DescribeJson(root));
  }
  JsonObjectReader reader(root, file_name);
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<TokenId> eos, ReadTokenIds(reader, "eos_token_id"));
  if (!eos.empty()) config->eos_token_ids = std::move(eos);  // more complete than config.json's
  LOCKSTEP_RETURN_IF_ERROR(CheckNeutralKeys(reader, kNeutralGenerationKeys));

  SamplingNumbers& defaults = config->generation_defaults;
  for (const auto& [key, number] : kNumberKeys) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> value, reader.Number(key));
    if (value.has_value()) defaults.*number = static_cast<float>(*value);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<uint32_t> top_k, ReadUint32(reader, "top_k"));
  defaults.top_k = top_k.value_or(defaults.top_k);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> do_sample, reader.Bool("do_sample"));
  if (do_sample == false) {
    // Greedy. Transformers then ignores the numbers that shape a distribution.
    defaults = {.temperature = 0.0f, .repetition_penalty = defaults.repetition_penalty};
  }
  return CheckSamplingNumbers(defaults, fmt::format("{}: ", file_name));
}

}  // namespace lockstep
