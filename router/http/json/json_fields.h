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

// A known field that is not served and would change the output. It is refused unless its value asks
// for nothing.
struct UnservedField {
  std::string_view name;
  std::string_view harmless = "[]";             // the values that ask for nothing, as a JSON array
  std::string_view reason = "not implemented";  // the error's text behind the name
};

// Typed access to the members of a stranger's JSON object. A member that is null counts as absent,
// and so does one of the wrong kind: the first of those is the error that Finish returns,
// INVALID_ARGUMENT "path: expected ..., got ...". Remembers what was asked for: Finish hands
// everything else to the unknown fields. Does not own the object, nor the names of members. `text`
// is the whole body, for errors to quote numbers as they are written; it may be empty.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, UnknownFields& unknown, std::string path = "",
             std::string_view text = "");
  // Of an object inside this one. The unknown fields of both are the same.
  JsonFields Inner(const nlohmann::json& object, std::string path) const {
    return JsonFields(object, unknown_, std::move(path), text_);
  }

  const nlohmann::json* Find(std::string_view name);  // nullptr when absent
  std::optional<bool> Bool(std::string_view name);
  std::optional<int64_t> Integer(std::string_view name, int64_t low, int64_t high);
  // `high` is what the error tells of the largest value. Larger ones are left to the checks behind
  // the reading, which have their own words for them.
  std::optional<uint32_t> Uint32(std::string_view name, uint32_t low = 0,
                                 uint32_t high = UINT32_MAX);
  std::optional<float> Number(std::string_view name);
  std::optional<std::string> String(std::string_view name);
  std::vector<uint32_t> TokenIds(std::string_view name);  // empty when absent
  // An array of ids; anything else is an error of `path`.
  std::vector<uint32_t> TokenIdsOf(const nlohmann::json& array, const std::string& path);

  void Ignore(std::span<const std::string_view> names);
  // UNIMPLEMENTED, by name, when it asks for something.
  void Refuse(std::span<const UnservedField> fields);

  // Keeps the first error.
  void Fail(const absl::Status& status);
  void FailKind(const std::string& path, std::string_view expected, const nlohmann::json& got);
  bool ok() const { return status_.ok(); }
  std::string PathOf(std::string_view name) const;

  // The first error, or that of a member that nobody asked for, if those are refused.
  absl::Status Finish();

 private:
  const nlohmann::json& object_;
  UnknownFields& unknown_;
  const std::string path_;
  const std::string_view text_;
  std::vector<std::string_view> read_;  // sorted by Finish
  absl::Status status_;
};

}  // namespace lockstep::router
