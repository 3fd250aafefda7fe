#include "router/http/json/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/json/json.h"
#include "common/json/json_number.h"
#include "common/json/json_text.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

constexpr double kMinRounded = 9223372036854775808.0;  // 2^63
constexpr size_t kMaxQuotedNumberBytes = 100;

// Reads integers below 2^63 in any JSON spelling.
std::optional<int64_t> AsInteger(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

bool IsHarmless(const UnservedField& field, const json& value) {
  const json harmless = json::parse(field.harmless);
  return std::find(harmless.begin(), harmless.end(), value) != harmless.end();
}

}  // namespace

JsonFields::JsonFields(const json& object, UnknownFields& unknown, std::string path,
                       std::string_view text)
    : object_(object), unknown_(unknown), path_(std::move(path)), text_(text) {
  if (!object.is_object()) {
    FailKind(path_.empty() ? "body" : path_, "a JSON object", object);
  }
}

const json* JsonFields::Find(std::string_view name) {
  read_.push_back(name);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string_view JsonFields::BodyText(std::string_view name) const {
  return JsonTextOfMember(text_, name);
}

std::optional<bool> JsonFields::Bool(std::string_view name) {
  const json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  FailKind(PathOf(name), "true or false", *value);
  return std::nullopt;
}

std::optional<int64_t> JsonFields::Integer(std::string_view name, int64_t low, int64_t high) {
  const json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = AsInteger(*value);
  if (number.has_value() && *number >= low && *number <= high) return number;
  FailKind(PathOf(name), fmt::format("an integer from {} to {}", low, high), *value);
  return std::nullopt;
}

std::optional<uint32_t> JsonFields::Uint32(std::string_view name, uint32_t low, uint32_t high) {
  const json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = AsInteger(*value);
  if (number.has_value() && *number >= low && *number <= std::numeric_limits<uint32_t>::max()) {
    return static_cast<uint32_t>(*number);
  }
  FailKind(PathOf(name), fmt::format("an integer from {} to {}", low, high), *value);
  return std::nullopt;
}

std::optional<float> JsonFields::Number(std::string_view name) {
  const json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return static_cast<float>(value->get<double>());
  FailKind(PathOf(name), "a number", *value);
  return std::nullopt;
}

std::optional<std::string> JsonFields::String(std::string_view name) {
  const json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  FailKind(PathOf(name), "a string", *value);
  return std::nullopt;
}

std::string JsonFields::RequiredString(std::string_view name) {
  std::optional<std::string> value = String(name);
  if (!value.has_value()) {
    Fail(InvalidArgument("{}: expected a string, got none", PathOf(name)));
  }
  return std::move(value).value_or("");
}

std::vector<uint32_t> JsonFields::TokenIds(std::string_view name) {
  const json* const value = Find(name);
  return value == nullptr ? std::vector<uint32_t>() : TokenIdsOf(*value, PathOf(name));
}

std::vector<uint32_t> JsonFields::TokenIdsOf(const json& array, const std::string& path) {
  std::vector<uint32_t> ids;
  if (!array.is_array()) {
    FailKind(path, "an array of token ids", array);
    return ids;
  }
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::optional<int64_t> id = AsInteger(array[i]);
    if (!id.has_value() || *id < 0 || *id > std::numeric_limits<uint32_t>::max()) {
      FailKind(fmt::format("{}[{}]", path, i), "a token id", array[i]);
      return ids;
    }
    ids.push_back(static_cast<uint32_t>(*id));
  }
  return ids;
}

void JsonFields::Ignore(std::span<const std::string_view> names) {
  read_.insert(read_.end(), names.begin(), names.end());
}

void JsonFields::Refuse(std::span<const UnservedField> fields) {
  for (const UnservedField& field : fields) {
    const json* const value = Find(field.name);
    if (value == nullptr || IsHarmless(field, *value)) continue;
    Fail(Unimplemented("{}: {}", PathOf(field.name), field.reason));
  }
}

void JsonFields::Fail(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

void JsonFields::FailKind(const std::string& path, std::string_view expected, const json& got) {
  if (!ok()) return;
  // Parsing has rounded integers of more than 64 bits.
  const bool rounded = got.is_number_float() && std::abs(got.get<double>()) >= kMinRounded;
  std::string quoted(rounded ? JsonNumberAt(text_, path) : "");
  if (quoted.empty()) quoted = DescribeJson(got);
  if (quoted.size() > kMaxQuotedNumberBytes) {
    quoted.resize(kMaxQuotedNumberBytes);
    quoted += "...";
  }
  Fail(InvalidArgument("{}: expected {}, got {}", path, expected, quoted));
}

std::string JsonFields::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

absl::Status JsonFields::Finish() {
  if (!status_.ok() || ignores_rest_) return status_;
  std::sort(read_.begin(), read_.end());
  for (const auto& [name, value] : object_.items()) {
    if (std::binary_search(read_.begin(), read_.end(), std::string_view(name))) continue;
    LOCKSTEP_RETURN_IF_ERROR(unknown_.Add(path_, name));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::router
