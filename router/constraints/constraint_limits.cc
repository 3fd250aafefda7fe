#include "router/constraints/constraint_limits.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/json/json.h"
#include "common/shown_text.h"
#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

// Deeper texts get an error without a place.
constexpr JsonLimits kParserLimits = {.max_depth = 512, .max_values = 200'000};
constexpr size_t kMaxShownPointerBytes = 200;

// Walks a schema. The place of the walk is a JSON pointer (RFC 6901).
class SchemaWalk {
 public:
  explicit SchemaWalk(std::string_view path) : path_(path) {}

  absl::Status Visit(const json& value, size_t depth) {
    if (value.is_string()) return CheckText(value.get_ref<const std::string&>());
    if (!value.is_structured()) return absl::OkStatus();
    if (depth == kMaxSchemaDepth) {
      return Error(fmt::format("expected at most {} nested levels", kMaxSchemaDepth));
    }
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        LOCKSTEP_RETURN_IF_ERROR(VisitMember(std::to_string(i), value[i], depth));
      }
      return absl::OkStatus();
    }
    for (const auto& [key, member] : value.items()) {
      LOCKSTEP_RETURN_IF_ERROR(CheckText(key));
      LOCKSTEP_RETURN_IF_ERROR(VisitMember(key, member, depth));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status VisitMember(const std::string& key, const json& member, size_t depth) {
    const size_t size_before = pointer_.size();
    const bool in_patterns = pointer_.ends_with("/patternProperties");
    pointer_ += '/';
    for (const char c : key) pointer_ += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    LOCKSTEP_RETURN_IF_ERROR(CheckMember(key, member, in_patterns));
    LOCKSTEP_RETURN_IF_ERROR(Visit(member, depth + 1));
    pointer_.resize(size_before);
    return absl::OkStatus();
  }

  // A property may have the name of a keyword. Then a bound may be checked that need not hold.
  absl::Status CheckMember(const std::string& key, const json& member, bool in_patterns) {
    if (key == "$ref" && ++num_refs_ > kMaxSchemaRefs) {
      return Error(fmt::format("expected at most {} $refs in the schema", kMaxSchemaRefs));
    }
    if (key == "enum" && member.is_array() && member.size() > kMaxChoices) {
      return Error(fmt::format("expected at most {} values, got {}", kMaxChoices, member.size()));
    }
    if (in_patterns) return CheckRegex(key);
    if (key != "pattern" || !member.is_string()) return absl::OkStatus();
    return CheckRegex(member.get_ref<const std::string&>());
  }

  absl::Status CheckRegex(const std::string& regex) const {
    if (regex.size() <= kMaxRegexBytes) return absl::OkStatus();
    return Error(fmt::format("expected a regular expression of at most {} bytes, got {}",
                             kMaxRegexBytes, regex.size()));
  }

  absl::Status CheckText(const std::string& text) const {
    if (text.find('\0') == std::string::npos) return absl::OkStatus();
    return Error("expected text without NUL");
  }

  absl::Status Error(const std::string& problem) const {
    const std::string place = pointer_.size() <= kMaxShownPointerBytes
                                  ? pointer_
                                  : pointer_.substr(0, kMaxShownPointerBytes) + "...";
    return InvalidArgument("{}: at {}: {}", path_, place.empty() ? "the root" : OneLine(place, 256),
                           problem);
  }

  const std::string_view path_;
  std::string pointer_;
  size_t num_refs_ = 0;
};

absl::Status CheckText(const std::string& text, std::string_view path) {
  if (text.size() > kMaxConstraintBytes) {
    return InvalidArgument("{}: expected at most {} bytes, got {}", path, kMaxConstraintBytes,
                           text.size());
  }
  if (const std::optional<size_t> offset = FindInvalidUtf8(text)) {
    return InvalidArgument("{}: is not valid UTF-8 at byte {}", path, *offset);
  }
  if (const size_t offset = text.find('\0'); offset != std::string::npos) {
    return InvalidArgument("{}: expected text without NUL, got one at byte {}", path, offset);
  }
  return absl::OkStatus();
}

absl::Status CheckSchema(const std::string& text, std::string_view path) {
  const absl::StatusOr<json> schema = ParseJson(text, path, kParserLimits);
  if (!schema.ok()) return InvalidArgument("{}", Message(schema.status()));
  if (!schema->is_object() && !schema->is_boolean()) {
    return InvalidArgument("{}: expected an object, true or false, got {}", path,
                           DescribeJson(*schema));
  }
  return SchemaWalk(path).Visit(*schema, 0);
}

absl::Status CheckChoices(const std::string& text, std::string_view path) {
  const absl::StatusOr<json> choices = ParseJson(text, path, kParserLimits);
  if (!choices.ok()) return InvalidArgument("{}", Message(choices.status()));
  if (!choices->is_array() || choices->empty() || choices->size() > kMaxChoices) {
    return InvalidArgument("{}: expected 1 to {} texts, got {}", path, kMaxChoices,
                           choices->size());
  }
  return SchemaWalk(path).Visit(*choices, 0);
}

}  // namespace

absl::Status CheckConstraintLimits(const Constraint& constraint, std::string_view path) {
  LOCKSTEP_RETURN_IF_ERROR(CheckText(constraint.text, path));
  switch (constraint.kind) {
    case ConstraintKind::kJsonSchema:
      return CheckSchema(constraint.text, path);
    case ConstraintKind::kChoice:
      return CheckChoices(constraint.text, path);
    case ConstraintKind::kRegex:
      if (constraint.text.size() <= kMaxRegexBytes) return absl::OkStatus();
      return InvalidArgument("{}: expected at most {} bytes, got {}", path, kMaxRegexBytes,
                             constraint.text.size());
    case ConstraintKind::kJsonObject:
    case ConstraintKind::kGrammar:
      break;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::router
