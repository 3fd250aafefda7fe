#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/http/json/unknown_fields.h"

namespace lockstep::router {

// A known field that is not served and would change the output. It is refused unless its value has
// no effect.
struct UnservedField {
  std::string_view name;
  std::string_view harmless = "[]";             // values without effect, as a JSON array
  std::string_view reason = "not implemented";  // the error's text after the name
};

// Typed access to the members of a client's JSON object. A member that is null or of the wrong kind
// counts as absent. Finish returns the first error, INVALID_ARGUMENT "path: expected ..., got ...".
// Remembers the members that were read, and Finish reports all others to the unknown fields. Does
// not own the object or the names of members. `text` is the whole body, so that errors can quote
// numbers as written; it may be empty.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, UnknownFields& unknown, std::string path = "",
             std::string_view text = "");
  // For an object inside this one. Both share the unknown fields.
  JsonFields Inner(const nlohmann::json& object, std::string path) const {
    return JsonFields(object, unknown_, std::move(path), text_);
  }

  const nlohmann::json* Find(std::string_view name);  // nullptr if absent
  // The text of a member of the body itself, for readers that need the order of keys. "" if absent.
  std::string_view BodyText(std::string_view name) const;
  std::optional<bool> Bool(std::string_view name);
  std::optional<int64_t> Integer(std::string_view name, int64_t low, int64_t high);
  // `high` is the largest value in the error's text only. Larger values pass: later checks refuse
  // them with better messages.
  std::optional<uint32_t> Uint32(std::string_view name, uint32_t low = 0,
                                 uint32_t high = UINT32_MAX);
  std::optional<float> Number(std::string_view name);
  std::optional<std::string> String(std::string_view name);
  std::string RequiredString(std::string_view name);      // absent: an error, and ""
  std::vector<uint32_t> TokenIds(std::string_view name);  // empty if absent
  // Reads an array of ids. Anything else is an error at `path`.
  std::vector<uint32_t> TokenIdsOf(const nlohmann::json& array, const std::string& path);

  void Ignore(std::span<const std::string_view> names);
  // Every member that is not read is ignored, and is not reported as unknown.
  void IgnoreRest() { ignores_rest_ = true; }
  // UNIMPLEMENTED names a field that requests something unserved.
  void Refuse(std::span<const UnservedField> fields);

  // Keeps the first error.
  void Fail(const absl::Status& status);
  void FailKind(const std::string& path, std::string_view expected, const nlohmann::json& got);
  bool ok() const { return status_.ok(); }
  std::string PathOf(std::string_view name) const;

  // Returns the first error. If unknown fields are refused, an unread member is an error too.
  absl::Status Finish();

 private:
  const nlohmann::json& object_;
  UnknownFields& unknown_;
  const std::string path_;
  const std::string_view text_;
  std::vector<std::string_view> read_;  // sorted by Finish
  bool ignores_rest_ = false;
  absl::Status status_;
};

}  // namespace lockstep::router
