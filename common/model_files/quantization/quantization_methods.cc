#include "common/model_files/quantization/quantization_methods.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

bool IsPositive(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() > 0 &&
         value.get<uint64_t>() <= std::numeric_limits<int32_t>::max();
}

}  // namespace

std::string QuotedList(std::span<const std::string_view> values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += i + 1 == values.size() ? " or " : ", ";
    text += fmt::format("\"{}\"", values[i]);
  }
  return text;
}

void AddSchemeForTheRest(const WeightScheme& scheme, QuantizationRules* rules) {
  rules->push_back({.patterns = {ModulePattern::Everything()}, .scheme = scheme});
}

void SkipHarmless(JsonObjectReader& reader, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) reader.Find(key);
}

absl::Status RefuseUnreadKeys(JsonObjectReader& reader) {
  for (const std::string& key : reader.UnreadKeys()) {
    const Json* value = reader.Find(key);
    if (value == nullptr) continue;  // null
    return InvalidArgument("{} is {}: this key is not known, and it could alter the weights",
                           reader.Where(key), DescribeJson(*value));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> ReadOneOf(JsonObjectReader& reader, std::string_view key,
                                                     std::span<const std::string_view> values) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::optional<std::string> text, reader.String(key));
  if (!text) return std::optional<std::string>();
  const std::string lower = absl::AsciiStrToLower(*text);
  if (std::find(values.begin(), values.end(), lower) == values.end()) {
    return InvalidArgument("{} is {}, expected {}", reader.Where(key), DescribeJson(*text),
                           QuotedList(values));
  }
  return std::optional(lower);
}

absl::Status ExpectBool(JsonObjectReader& reader, std::string_view key, bool value) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<bool> given, reader.Bool(key));
  if (given.value_or(value) == value) return absl::OkStatus();
  return InvalidArgument("{} is {}, which is not supported; expected {}", reader.Where(key), *given,
                         value);
}

absl::Status ExpectEmpty(JsonObjectReader& reader, std::string_view key) {
  const Json* value = reader.Find(key);
  if (value == nullptr || (value->is_structured() && value->empty())) return absl::OkStatus();
  return InvalidArgument("{} is {}, which is not supported; expected nothing", reader.Where(key),
                         DescribeJson(*value));
}

absl::StatusOr<std::vector<std::string>> ReadNames(JsonObjectReader& reader, std::string_view key) {
  const Json* value = reader.Find(key);
  std::vector<std::string> names;
  if (value == nullptr) return names;
  const bool is_list =
      value->is_array() && std::all_of(value->begin(), value->end(), [](const Json& name) {
        return name.is_string() && !name.get_ref<const std::string&>().empty();
      });
  if (!is_list) {
    return InvalidArgument("{} is {}, expected a list of names", reader.Where(key),
                           DescribeJson(*value));
  }
  return value->get<std::vector<std::string>>();
}

absl::StatusOr<std::optional<uint32_t>> ReadGroupSize(JsonObjectReader& reader,
                                                      std::string_view key) {
  const Json* value = reader.Find(key);
  if (value == nullptr) return std::optional<uint32_t>();
  if (value->is_number_integer() && *value == -1) return std::optional<uint32_t>(0);
  if (!IsPositive(*value)) {
    return InvalidArgument("{} is {}, expected a number of columns > 0, or -1 for a whole row",
                           reader.Where(key), DescribeJson(*value));
  }
  return std::optional(value->get<uint32_t>());
}

absl::StatusOr<std::optional<BlockSize>> ReadBlockSize(JsonObjectReader& reader,
                                                       std::string_view key) {
  const Json* value = reader.Find(key);
  if (value == nullptr) return std::optional<BlockSize>();
  if (!value->is_array() || value->size() != 2 ||
      !std::all_of(value->begin(), value->end(), IsPositive)) {
    return InvalidArgument("{} is {}, expected [rows, columns]", reader.Where(key),
                           DescribeJson(*value));
  }
  return std::optional(BlockSize{(*value)[0].get<uint32_t>(), (*value)[1].get<uint32_t>()});
}

absl::StatusOr<QuantizationConfig::Rule> ReadNotConverted(JsonObjectReader& reader,
                                                          std::string_view key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadNames(reader, key));
  QuantizationConfig::Rule rule;
  for (const std::string& name : names) {
    absl::StatusOr<ModulePattern> pattern = ModulePattern::NotConverted(name);
    if (!pattern.ok()) {
      return InvalidArgument("{}: {} is not a regular expression: {}", reader.Where(key),
                             DescribeJson(name), Message(pattern.status()));
    }
    rule.patterns.push_back(*std::move(pattern));
  }
  return rule;
}

ModulePattern KnownRegex(const std::string& expression) {
  absl::StatusOr<ModulePattern> pattern = ModulePattern::Regex(expression);
  LOCKSTEP_CHECK(pattern.ok(), "{}: {}", expression, Message(pattern.status()));
  return *std::move(pattern);
}

}  // namespace lockstep
