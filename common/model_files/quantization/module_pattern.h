#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

// How a quantization_config names modules: "model.layers.0.mlp.down_proj". Every tool has its own
// rules. A pattern is immutable, and copies share it.
class ModulePattern {
 public:
  // The name itself.
  static ModulePattern Exact(std::string name);
  // Every module: the class "Linear" of compressed-tensors.
  static ModulePattern Everything();
  // As Python's re.match: from the start of the name, not to its end. INVALID_ARGUMENT with the
  // reason if it is no regular expression.
  static absl::StatusOr<ModulePattern> Regex(const std::string& expression);
  // As compressed-tensors: "re:" and a regular expression, or a name.
  static absl::StatusOr<ModulePattern> CompressedTensors(const std::string& text);
  // As ModelOpt: "*" stands for any characters. Modules below a match match too.
  static ModulePattern Wildcard(std::string text);
  // As modules_to_not_convert of transformers: a regular expression from the start of the name up
  // to a dot or to the end, or the end of the name; or whole components anywhere in it.
  static absl::StatusOr<ModulePattern> NotConverted(const std::string& text);

  // RESOURCE_EXHAUSTED if a regular expression takes too many steps.
  absl::StatusOr<bool> Matches(std::string_view module) const;

 private:
  class Rule;
  class ExactRule;
  class EverythingRule;
  class RegexRule;
  class WildcardRule;
  class NotConvertedRule;

  explicit ModulePattern(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}
  static absl::StatusOr<std::shared_ptr<const Rule>> MakeRegex(const std::string& expression);

  std::shared_ptr<const Rule> rule_;
};

}  // namespace lockstep
