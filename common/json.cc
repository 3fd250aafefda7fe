#include "common/json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/logging.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// Builds the value from nlohmann's parser events. Its parser keeps its own stack, so nesting is
// limited by max_depth alone.
class Builder {
 public:
  Builder(std::string_view name, size_t num_bytes, JsonLimits limits)
      : name_(name), num_bytes_(num_bytes), limits_(limits) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(int64_t value) { return Add(value); }
  bool number_unsigned(uint64_t value) { return Add(value); }
  bool number_float(double value, const std::string&) { return Add(value); }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool binary(Json::binary_t&) { return Fail("binary value"); }
  bool start_object(size_t) { return Open(Json::object()); }
  bool start_array(size_t) { return Open(Json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& key) {
    Json& object = *open_.back();
    if (object.contains(key)) {
      return Fail(fmt::format("key \"{}\" is present twice in one object", key));
    }
    slot_ = &object[key];
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 4: what": keep what it says.
    std::string_view what = error.what();
    if (const size_t end = what.find("] "); end != std::string_view::npos)
      what.remove_prefix(end + 2);
    status_ = InvalidArgument("{}: byte {}: {}", name_, std::min(position, num_bytes_),
                              EscapeControlCharacters(what));
    return false;
  }

  absl::StatusOr<Json> Take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

 private:
  bool Fail(std::string_view what) {
    status_ = InvalidArgument("{}: {}", name_, EscapeControlCharacters(what));
    return false;
  }

  // Where the next value goes.
  Json* Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Count() {
    if (++num_values_ <= limits_.max_values) return true;
    return Fail(fmt::format("more than {} values", limits_.max_values));
  }

  template <typename T>
  bool Add(T value) {
    if (!Count()) return false;
    Place(Json(std::move(value)));
    return true;
  }

  bool Open(Json container) {
    if (!Count()) return false;
    if (open_.size() >= limits_.max_depth) {
      return Fail(fmt::format("nested deeper than {} levels", limits_.max_depth));
    }
    open_.push_back(Place(std::move(container)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const std::string_view name_;
  const size_t num_bytes_;
  const JsonLimits limits_;
  Json root_;
  // An open container's address holds: only the innermost one grows.
  std::vector<Json*> open_;
  Json* slot_ = nullptr;  // of the last key
  size_t num_values_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view name,
                                         JsonLimits limits) {
  Builder builder(name, text.size(), limits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

std::string DescribeJson(const nlohmann::json& value) {
  constexpr size_t kMaxLength = 60;
  if (value.is_object() && value.size() > 8) {
    return fmt::format("an object of {} members", value.size());
  }
  if (value.is_array() && value.size() > 8) {
    return fmt::format("an array of {} elements", value.size());
  }
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxLength) text = text.substr(0, kMaxLength) + "...";
  return text;
}

JsonObjectReader::JsonObjectReader(const nlohmann::json& object, std::string name, std::string path)
    : object_(object), name_(std::move(name)), path_(std::move(path)) {}

const nlohmann::json* JsonObjectReader::Find(std::string_view key) {
  read_.emplace_back(key);
  const auto it = object_.find(read_.back());
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonObjectReader::IsNull(std::string_view key) const {
  const auto it = object_.find(std::string(key));
  return it != object_.end() && it->is_null();
}

absl::StatusOr<std::optional<uint64_t>> JsonObjectReader::Uint(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<uint64_t>();
  if (!value->is_number_unsigned()) return WrongKind(key, *value, "an integer >= 0");
  return std::optional(value->get<uint64_t>());
}

absl::StatusOr<std::optional<double>> JsonObjectReader::Number(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    return WrongKind(key, *value, "a number");
  }
  return std::optional(value->get<double>());
}

absl::StatusOr<std::optional<bool>> JsonObjectReader::Bool(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return WrongKind(key, *value, "true or false");
  return std::optional(value->get<bool>());
}

absl::StatusOr<std::optional<std::string>> JsonObjectReader::String(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongKind(key, *value, "a string");
  return std::optional(value->get<std::string>());
}

std::vector<std::string> JsonObjectReader::UnreadKeys() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : object_.items()) {
    if (std::find(read_.begin(), read_.end(), key) == read_.end()) unread.push_back(key);
  }
  return unread;
}

std::string JsonObjectReader::Where(std::string_view key) const {
  return fmt::format("{}: {}{}{}", name_, path_, path_.empty() ? "" : ".",
                     EscapeControlCharacters(key));
}

absl::Status JsonObjectReader::WrongKind(std::string_view key, const nlohmann::json& value,
                                         std::string_view expected) const {
  return InvalidArgument("{} is {}, expected {}", Where(key), DescribeJson(value), expected);
}

}  // namespace lockstep
