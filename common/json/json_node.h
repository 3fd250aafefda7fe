#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace lockstep {

// One value of a JSON document, with its file and its JSON pointer (RFC 6901) for errors. The
// document must outlive the node.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string file, std::string pointer = "")
      : value_(&value), file_(std::move(file)), pointer_(std::move(pointer)) {}

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  // INVALID_ARGUMENT "FILE: /pointer: PROBLEM".
  absl::Status Error(std::string_view problem) const;
  // INVALID_ARGUMENT that shows the value and what is expected instead.
  absl::Status Unexpected(std::string_view expected) const;

  // A member of an object. INVALID_ARGUMENT if this is no object or has no such member.
  absl::StatusOr<JsonNode> Member(std::string_view key) const;
  // nullopt if absent or null.
  absl::StatusOr<std::optional<JsonNode>> OptionalMember(std::string_view key) const;
  // An element of an array.
  JsonNode Element(size_t index) const;

  absl::Status ExpectObject() const;
  absl::StatusOr<size_t> ArraySize() const;
  // Refuses an object with other members than `keys`.
  absl::Status ExpectOnlyKeys(std::initializer_list<std::string_view> keys) const;

  absl::StatusOr<std::string> GetString() const;
  absl::StatusOr<bool> GetBool() const;
  // An integer from 0 to `max`.
  absl::StatusOr<uint32_t> GetUint(uint32_t max) const;

  // Members with a default when absent or null.
  absl::StatusOr<bool> BoolMember(std::string_view key, bool otherwise) const;
  absl::StatusOr<std::string> StringMember(std::string_view key) const;

 private:
  const nlohmann::json* value_;
  std::string file_;
  std::string pointer_;
};

}  // namespace lockstep
