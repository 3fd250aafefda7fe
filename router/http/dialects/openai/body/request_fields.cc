#include "router/http/dialects/openai/body/request_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/grpc/sampling_fields.h"
#include "common/json/json.h"
#include "common/status.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr size_t kMaxQuotedKeys = 4;

void ReadBestOf(JsonFields& fields, const RequestLimits& limits, uint32_t num_samples) {
  const std::optional<uint32_t> best_of = fields.Uint32("best_of", 1, limits.max_samples);
  if (!best_of.has_value() || *best_of == num_samples) return;
  if (*best_of < num_samples) {
    fields.Fail(
        InvalidArgument("best_of: expected at least n = {}, got {}", num_samples, *best_of));
  } else {
    fields.Fail(Unimplemented("best_of: more than n is not implemented, got {}", *best_of));
  }
}

void ReadLogitBias(JsonFields& fields, v1::SamplingParams& sampling) {
  const json* const biases = fields.Find("logit_bias");
  if (biases == nullptr) return;
  if (!biases->is_object()) return fields.FailKind("logit_bias", "an object", *biases);
  std::vector<std::string> wrong_keys;
  for (const auto& [key, bias] : biases->items()) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    // "05" would be a second spelling of 5.
    const bool canonical = key == "0" || !key.starts_with('0');
    if (error != std::errc() || end != key.data() + key.size() || !canonical) {
      if (wrong_keys.size() < kMaxQuotedKeys) wrong_keys.push_back(Quote(key));
      continue;
    }
    if (!bias.is_number()) {
      return fields.FailKind(fmt::format("logit_bias[{}]", id), "a number", bias);
    }
    (*sampling.mutable_logit_bias())[id] = static_cast<float>(bias.get<double>());
  }
  if (!wrong_keys.empty()) {
    fields.Fail(InvalidArgument("logit_bias: expected token ids as keys, got {}",
                                fmt::join(wrong_keys, ", ")));
  }
}

bool IsArrayOfStrings(const json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(),
                                         [](const json& element) { return element.is_string(); });
}

bool IsMinusOne(const json& value) { return value.is_number_integer() && value == -1; }

void ReadBadWords(JsonFields& fields, v1::SamplingParams& sampling) {
  const json* const words = fields.Find("bad_words");
  if (words == nullptr) return;
  if (!IsArrayOfStrings(*words)) return fields.FailKind("bad_words", "an array of strings", *words);
  for (const json& word : *words) sampling.add_bad_words(word.get<std::string>());
}

// In vLLM, -1 means the whole vocabulary.
void ReadPromptLogprobs(JsonFields& fields, const RequestLimits& limits, OpenAiRequest& out,
                        v1::GenerateRequest& request) {
  const json* const value = fields.Find("prompt_logprobs");
  if (value != nullptr && IsMinusOne(*value)) {
    return fields.Fail(
        Unimplemented("prompt_logprobs: -1, those of the whole vocabulary, are not implemented"));
  }
  const std::optional<uint32_t> count = fields.Uint32("prompt_logprobs", 0, limits.max_logprobs);
  if (!count.has_value()) return;
  if (out.stream) {
    return fields.Fail(InvalidArgument("prompt_logprobs: expected without \"stream\": true"));
  }
  out.options.prompt_logprobs = *count;
  request.mutable_output()->set_prompt_logprobs(*count);
}

void ReadNumbers(JsonFields& fields, v1::SamplingParams& sampling) {
  const google::protobuf::Reflection& reflection = *sampling.GetReflection();
  for (size_t i = 0; i < std::size(kSamplingNumbers); ++i) {
    const SamplingNumber& number = kSamplingNumbers[i];
    const auto* const field = SamplingFieldsOf<v1::SamplingParams>()[i];
    if (number.real != nullptr) {
      const auto value = fields.Number(number.name);
      if (value.has_value()) reflection.SetFloat(&sampling, field, *value);
      continue;
    }
    // -1 is off too, as in vLLM.
    const auto value = fields.Integer(number.name, -1, std::numeric_limits<uint32_t>::max());
    if (!value.has_value()) continue;
    reflection.SetUInt32(&sampling, field, static_cast<uint32_t>(std::max<int64_t>(*value, 0)));
  }
}

void ReadSampling(JsonFields& fields, const RequestLimits& limits, OpenAiRequest& out,
                  v1::SamplingParams& sampling) {
  ReadNumbers(fields, sampling);
  if (sampling.has_temperature()) {
    sampling.set_temperature(RaisedTemperature(sampling.temperature()));
  }
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto seed = fields.Integer("seed", std::numeric_limits<int64_t>::min(), kMax);
  // -1 requests a random seed, as in vLLM.
  if (seed.value_or(-1) != -1) sampling.set_seed(static_cast<uint64_t>(*seed));
  if (const auto value = fields.Uint32("n", 1, limits.max_samples)) {
    sampling.set_n(*value);
    out.options.num_samples = *value;
  }
  ReadBestOf(fields, limits, out.options.num_samples);
  ReadLogitBias(fields, sampling);
  ReadBadWords(fields, sampling);
  const std::vector<uint32_t> allowed = fields.TokenIds("allowed_token_ids");
  sampling.mutable_allowed_token_ids()->Assign(allowed.begin(), allowed.end());
}

void ReadStop(JsonFields& fields, const BodyReading& reading, v1::StopCriteria& stop) {
  if (const json* const value = fields.Find("stop")) {
    if (value->is_string()) {
      if (auto text = value->get<std::string>(); !text.empty()) stop.add_stop(std::move(text));
    } else if (!IsArrayOfStrings(*value)) {
      fields.FailKind("stop", "a string or an array of strings", *value);
    } else {
      for (const json& element : *value) stop.add_stop(element.get<std::string>());
    }
  }
  const std::vector<uint32_t> ids = fields.TokenIds("stop_token_ids");
  stop.mutable_stop_token_ids()->Assign(ids.begin(), ids.end());
  if (const auto value = fields.Uint32("min_tokens", 0, reading.max_context_tokens - 1)) {
    stop.set_min_tokens(*value);
  }
  if (const auto value = fields.Bool("ignore_eos")) stop.set_ignore_eos(*value);
  if (const auto value = fields.Bool("include_stop_str_in_output")) stop.set_include_stop(*value);
}

void ReadStream(JsonFields& fields, OpenAiRequest& out) {
  out.stream = fields.Bool("stream").value_or(false);
  const json* const value = fields.Find("stream_options");
  if (value == nullptr) return;
  if (!out.stream) {
    return fields.Fail(InvalidArgument("stream_options: expected with \"stream\": true only"));
  }
  JsonFields stream = fields.Inner(*value, "stream_options");
  AnswerOptions& options = out.options;
  options.include_usage = stream.Bool("include_usage").value_or(false);
  // As in vLLM, it only decides where the usage appears.
  options.continuous_usage =
      stream.Bool("continuous_usage_stats").value_or(false) && options.include_usage;
  constexpr std::array<std::string_view, 1> kIgnoredOfStream = {"include_obfuscation"};
  stream.Ignore(kIgnoredOfStream);
  fields.Fail(stream.Finish());
}

// -1, as in vLLM: keep as many tokens as leave room for the output.
void ReadTruncation(JsonFields& fields, const BodyReading& reading, v1::GenerateRequest& request) {
  const json* const value = fields.Find("truncate_prompt_tokens");
  if (value == nullptr) return;
  if (IsMinusOne(*value)) return request.set_truncate_prompt_tokens(kAllThatFits);
  const uint64_t count = value->is_number_unsigned() ? value->get<uint64_t>() : 0;
  if (count >= 1 && count < kAllThatFits) {
    return request.set_truncate_prompt_tokens(static_cast<uint32_t>(count));
  }
  fields.FailKind("truncate_prompt_tokens",
                  fmt::format("-1 or an integer from 1 to {}", reading.max_context_tokens - 1),
                  *value);
}

void ReadSpeculation(JsonFields& fields, v1::GenerateRequest& request) {
  const std::optional<std::string> value = fields.String("speculation");
  if (!value.has_value() || *value == "auto") return;
  if (*value == "off") return request.set_speculation(v1::SPECULATION_OFF);
  fields.Fail(InvalidArgument("speculation: expected \"auto\" or \"off\", got {}", Quote(*value)));
}

}  // namespace

void ReadCommonFields(JsonFields& fields, const BodyReading& reading, OpenAiRequest& out,
                      v1::GenerateRequest& request) {
  request.set_model(fields.String("model").value_or(""));
  ReadSampling(fields, reading.limits, out, *request.mutable_sampling());
  ReadStop(fields, reading, *request.mutable_stop());
  ReadStream(fields, out);
  ReadPromptLogprobs(fields, reading.limits, out, request);
  if (const auto value = fields.Bool("skip_special_tokens")) {
    request.mutable_output()->set_skip_special_tokens(*value);
  }
  if (fields.Bool("return_token_ids").value_or(false)) {
    out.options.token_ids = true;
    request.mutable_output()->set_prompt_token_ids(true);
  }
  out.options.tokens_as_ids = fields.Bool("return_tokens_as_token_ids").value_or(false);
  if (const auto value = fields.Integer("priority", -kMaxPriority, kMaxPriority)) {
    request.set_priority(static_cast<int32_t>(*value));
  }
  request.set_cache_salt(fields.String("cache_salt").value_or(""));
  request.set_session_id(fields.String("session_id").value_or(""));
  out.request_id = fields.String("request_id").value_or("");
  ReadTruncation(fields, reading, request);
  ReadSpeculation(fields, request);
  fields.Ignore(IgnoredOfEveryRequest());
  fields.Refuse(UnservedOfEveryRequest());
}

}  // namespace lockstep::router
