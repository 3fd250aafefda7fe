#include "router/serving/validation/constraint_field.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

absl::Status CheckNotEmpty(const std::string& text, std::string_view path) {
  if (!text.empty()) return absl::OkStatus();
  return InvalidArgument("{}: expected at least 1 byte, got none", path);
}

// A list in JSON, because choices are texts of any kind.
absl::StatusOr<Constraint> ReadChoices(const v1::ConstraintChoices& choices) {
  nlohmann::json list = nlohmann::json::array();
  for (int i = 0; i < choices.texts_size(); ++i) {
    const std::string& choice = choices.texts(i);
    if (const auto offset = FindInvalidUtf8(choice)) {
      return InvalidArgument("sampling.choice.texts[{}]: is not valid UTF-8 at byte {}", i,
                             *offset);
    }
    list.push_back(choice);
  }
  return Constraint{.kind = ConstraintKind::kChoice, .text = list.dump()};
}

}  // namespace

std::string_view ConstraintPath(const v1::SamplingParams& sampling) {
  switch (sampling.constraint_case()) {
    case v1::SamplingParams::kJsonSchema:
      return "sampling.json_schema";
    case v1::SamplingParams::kRegex:
      return "sampling.regex";
    case v1::SamplingParams::kGrammar:
      return "sampling.grammar";
    case v1::SamplingParams::kJsonObject:
      // False asks for nothing.
      return sampling.json_object() ? "sampling.json_object" : "";
    case v1::SamplingParams::kChoice:
      return "sampling.choice";
    case v1::SamplingParams::kStructuralTag:
      return "sampling.structural_tag";
    case v1::SamplingParams::CONSTRAINT_NOT_SET:
      break;
  }
  return {};
}

absl::Status CheckConstraintField(const v1::SamplingParams& sampling, bool enforces_constraints) {
  const std::string_view path = ConstraintPath(sampling);
  if (path.empty()) return absl::OkStatus();
  if (sampling.has_structural_tag()) {
    return Unimplemented("{}: structural tags are not implemented", path);
  }
  if (!enforces_constraints) {
    return Unimplemented("{}: this router has no constraint engine", path);
  }
  if (sampling.has_json_schema()) return CheckNotEmpty(sampling.json_schema(), path);
  if (sampling.has_grammar()) return CheckNotEmpty(sampling.grammar(), path);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Constraint>> ReadConstraint(const v1::SamplingParams& sampling) {
  switch (sampling.constraint_case()) {
    case v1::SamplingParams::kJsonSchema:
      return Constraint{.kind = ConstraintKind::kJsonSchema, .text = sampling.json_schema()};
    case v1::SamplingParams::kRegex:
      return Constraint{.kind = ConstraintKind::kRegex, .text = sampling.regex()};
    case v1::SamplingParams::kGrammar:
      return Constraint{.kind = ConstraintKind::kGrammar, .text = sampling.grammar()};
    case v1::SamplingParams::kJsonObject:
      if (!sampling.json_object()) return std::optional<Constraint>();
      return Constraint{.kind = ConstraintKind::kJsonObject, .text = ""};
    case v1::SamplingParams::kChoice:
      return ReadChoices(sampling.choice());
    case v1::SamplingParams::kStructuralTag:
    case v1::SamplingParams::CONSTRAINT_NOT_SET:
      break;
  }
  return std::optional<Constraint>();
}

size_t NumConstraintBytes(const v1::SamplingParams& sampling) {
  size_t num_bytes =
      sampling.json_schema().size() + sampling.regex().size() + sampling.grammar().size();
  for (const std::string& choice : sampling.choice().texts()) num_bytes += choice.size();
  return num_bytes;
}

}  // namespace lockstep::router
