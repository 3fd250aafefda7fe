#include "common/json/json_node.h"

#include <algorithm>

#include "common/json/json.h"
#include "common/shown_text.h"

namespace lockstep {
namespace {

// A step of a JSON pointer (RFC 6901), as messages show it.
std::string Escaped(std::string_view key) {
  std::string escaped;
  for (const char c : ShownName(key)) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

absl::Status JsonNode::Error(std::string_view problem) const {
  return InvalidArgument("{}: {}: {}", file_, pointer_.empty() ? "/" : pointer_, problem);
}

absl::Status JsonNode::Unexpected(std::string_view expected) const {
  return Error(fmt::format("is {}, expected {}", DescribeJson(*value_), expected));
}

absl::StatusOr<JsonNode> JsonNode::Member(std::string_view key) const {
  LOCKSTEP_RETURN_IF_ERROR(ExpectObject());
  const auto it = value_->find(std::string(key));
  if (it == value_->end()) return Error(fmt::format("has no \"{}\"", key));
  return JsonNode(*it, file_, pointer_ + "/" + Escaped(key));
}

absl::StatusOr<std::optional<JsonNode>> JsonNode::OptionalMember(std::string_view key) const {
  LOCKSTEP_RETURN_IF_ERROR(ExpectObject());
  const auto it = value_->find(std::string(key));
  if (it == value_->end() || it->is_null()) return std::optional<JsonNode>();
  return std::optional<JsonNode>(JsonNode(*it, file_, pointer_ + "/" + Escaped(key)));
}

JsonNode JsonNode::Element(size_t index) const {
  return JsonNode((*value_)[index], file_, fmt::format("{}/{}", pointer_, index));
}

absl::Status JsonNode::ExpectObject() const {
  if (!value_->is_object()) return Unexpected("an object");
  return absl::OkStatus();
}

absl::StatusOr<size_t> JsonNode::ArraySize() const {
  if (!value_->is_array()) return Unexpected("an array");
  return value_->size();
}

absl::Status JsonNode::ExpectOnlyKeys(std::initializer_list<std::string_view> keys) const {
  LOCKSTEP_RETURN_IF_ERROR(ExpectObject());
  for (const auto& [key, value] : value_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return JsonNode(value, file_, pointer_ + "/" + Escaped(key)).Error("is not a known field");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonNode::GetString() const {
  if (!value_->is_string()) return Unexpected("a string");
  return value_->get<std::string>();
}

absl::StatusOr<bool> JsonNode::GetBool() const {
  if (!value_->is_boolean()) return Unexpected("true or false");
  return value_->get<bool>();
}

absl::StatusOr<uint32_t> JsonNode::GetUint(uint32_t max) const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > max) {
    return Unexpected(fmt::format("an integer from 0 to {}", max));
  }
  return value_->get<uint32_t>();
}

absl::StatusOr<bool> JsonNode::BoolMember(std::string_view key, bool otherwise) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<JsonNode> member, OptionalMember(key));
  if (!member) return otherwise;
  return member->GetBool();
}

absl::StatusOr<std::string> JsonNode::StringMember(std::string_view key) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode member, Member(key));
  return member.GetString();
}

}  // namespace lockstep
