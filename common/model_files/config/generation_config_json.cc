#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "common/model_files/config/model_config_parts.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// Defaults that would change the text and are not implemented. Keys that are neither in this table
// nor read below only tune transformers itself.
constexpr NeutralKey kNeutralGenerationKeys[] = {
    {"bad_words_ids", "[[]]"},
    {"begin_suppress_tokens", "[[]]"},
    {"diversity_penalty", "[0]"},
    {"dola_layers", "[[]]"},
    {"encoder_no_repeat_ngram_size", "[0]"},
    {"encoder_repetition_penalty", "[1]"},
    {"epsilon_cutoff", "[0]"},
    {"eta_cutoff", "[0]"},
    {"exponential_decay_length_penalty", "[[]]"},
    {"forced_bos_token_id", "[[]]"},
    {"forced_eos_token_id", "[[]]"},
    {"guidance_scale", "[1]"},
    {"min_length", "[0]"},
    {"min_new_tokens", "[0]"},
    {"no_repeat_ngram_size", "[0]"},
    {"num_beam_groups", "[1]"},
    {"num_beams", "[1]"},
    {"penalty_alpha", "[0]"},
    {"sequence_bias", "[[]]"},
    {"stop_strings", "[[]]"},
    {"suppress_tokens", "[[]]"},
    {"top_h", "[1]"},
    {"typical_p", "[1]"},
    {"watermarking_config", "[{}]"},
};

// The numbers that transformers reads.
constexpr std::string_view kNumberKeys[] = {"temperature", "top_p", "min_p", "repetition_penalty",
                                            "top_k"};

}  // namespace

void TakeDefault(const SamplingNumber& number, double value, std::string_view where,
                 ModelConfig* config) {
  SamplingNumbers& defaults = config->generation_defaults;
  if (number.real != nullptr) {
    const auto real = static_cast<float>(value);
    const float raised =
        number.real == &SamplingNumbers::temperature ? RaisedTemperature(real) : real;
    if (number.holds(raised)) {
      defaults.*number.real = raised;
      return;
    }
  } else if (value == -1) {
    defaults.*number.whole = 0;  // off, as in requests
    return;
  } else if (value >= 0 && value <= std::numeric_limits<uint32_t>::max() &&
             value == std::floor(value)) {
    defaults.*number.whole = static_cast<uint32_t>(value);
    return;
  }
  config->warnings.push_back(
      fmt::format("{} is {}, expected {}: this default is ignored", where, value, number.expected));
}

absl::Status ApplyGenerationConfig(std::string_view text, const std::string& file_name,
                                   ModelConfig* config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json root, ParseModelJson(text, file_name));
  if (!root.is_object()) {
    return InvalidArgument("{}: the file is {}, expected an object", file_name, DescribeJson(root));
  }
  JsonObjectReader reader(root, file_name);
  // Nothing in this file affects the computation, so its errors are only warnings.
  const auto warn = [config](const absl::Status& status) {
    if (status.ok()) return;
    config->warnings.push_back(fmt::format("{}: this default is ignored", Message(status)));
  };
  const absl::StatusOr<std::vector<TokenId>> ends = ReadTokenIds(reader, "eos_token_id");
  warn(ends.status());
  if (ends.ok()) AddEndIds(*ends, reader.Where("eos_token_id"), config);
  for (const NeutralKey& entry : kNeutralGenerationKeys) warn(CheckNeutralKeys(reader, {{entry}}));

  for (const SamplingNumber& number : kSamplingNumbers) {
    if (std::ranges::find(kNumberKeys, number.name) == std::end(kNumberKeys)) continue;
    const absl::StatusOr<std::optional<double>> value = reader.Number(number.name);
    warn(value.status());
    if (value.ok() && value->has_value()) {
      TakeDefault(number, **value, reader.Where(number.name), config);
    }
  }
  const absl::StatusOr<std::optional<bool>> do_sample = reader.Bool("do_sample");
  warn(do_sample.status());
  if (do_sample.ok() && *do_sample == false) {
    // Greedy. Transformers then ignores the numbers that shape a distribution.
    const float repetition_penalty = config->generation_defaults.repetition_penalty;
    config->generation_defaults = {.temperature = 0.0f, .repetition_penalty = repetition_penalty};
  }
  return absl::OkStatus();
}

}  // namespace lockstep
