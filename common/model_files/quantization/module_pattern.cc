#include "common/model_files/quantization/module_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

// A name has less than a hundred characters. This many steps take milliseconds.
constexpr uint32_t kMaxPatternSteps = 100'000;
constexpr std::string_view kRegexPrefix = "re:";

struct PatternCodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct PatternDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct PatternContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// "*" stands for any characters, also none.
bool MatchesWildcard(std::string_view text, std::string_view pattern) {
  size_t at = 0, p = 0;
  size_t star = std::string_view::npos, resume = 0;
  while (at < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = at;
    } else if (p < pattern.size() && pattern[p] == text[at]) {
      ++p;
      ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool HasComponents(std::string_view module, std::string_view components) {
  for (size_t at = module.find(components); at != std::string_view::npos;
       at = module.find(components, at + 1)) {
    const size_t end = at + components.size();
    const bool begins = at == 0 || module[at - 1] == '.';
    const bool ends = end == module.size() || module[end] == '.';
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

class ModulePattern::Rule {
 public:
  virtual ~Rule() = default;
  virtual absl::StatusOr<bool> Matches(std::string_view module) const = 0;
};

class ModulePattern::ExactRule final : public Rule {
 public:
  explicit ExactRule(std::string name) : name_(std::move(name)) {}
  absl::StatusOr<bool> Matches(std::string_view module) const override { return module == name_; }

 private:
  const std::string name_;
};

class ModulePattern::EverythingRule final : public Rule {
 public:
  absl::StatusOr<bool> Matches(std::string_view) const override { return true; }
};

class ModulePattern::WildcardRule final : public Rule {
 public:
  explicit WildcardRule(std::string text) : text_(std::move(text)) {}
  absl::StatusOr<bool> Matches(std::string_view module) const override {
    return MatchesWildcard(module, text_) || MatchesWildcard(module, text_ + ".*");
  }

 private:
  const std::string text_;
};

class ModulePattern::RegexRule final : public Rule {
 public:
  RegexRule(std::string text, std::unique_ptr<pcre2_code, PatternCodeDeleter> code)
      : text_(std::move(text)), code_(std::move(code)) {}

  absl::StatusOr<bool> Matches(std::string_view module) const override {
    const std::unique_ptr<pcre2_match_data, PatternDataDeleter> data(
        pcre2_match_data_create(1, nullptr));
    const std::unique_ptr<pcre2_match_context, PatternContextDeleter> context(
        pcre2_match_context_create(nullptr));
    if (data == nullptr || context == nullptr) return ResourceExhausted("no memory for PCRE2");
    pcre2_set_match_limit(context.get(), kMaxPatternSteps);
    const int result = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(module.data()),
                                   module.size(), 0, 0, data.get(), context.get());
    if (result >= 0) return true;
    if (result == PCRE2_ERROR_NOMATCH) return false;
    return ResourceExhausted("the regular expression \"{}\" takes too many steps on {}", text_,
                             module);
  }

 private:
  const std::string text_;
  const std::unique_ptr<pcre2_code, PatternCodeDeleter> code_;
};

class ModulePattern::NotConvertedRule final : public Rule {
 public:
  NotConvertedRule(std::string text, std::shared_ptr<const Rule> regex)
      : text_(std::move(text)), regex_(std::move(regex)) {}

  absl::StatusOr<bool> Matches(std::string_view module) const override {
    if (module.ends_with(text_) || HasComponents(module, text_)) return true;
    return regex_->Matches(module);
  }

 private:
  const std::string text_;
  const std::shared_ptr<const Rule> regex_;
};

absl::StatusOr<std::shared_ptr<const ModulePattern::Rule>> ModulePattern::MakeRegex(
    const std::string& expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_code, PatternCodeDeleter> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_ANCHORED, &error, &offset, nullptr));
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message = {};
    pcre2_get_error_message(error, message.data(), message.size());
    return InvalidArgument("at offset {}: {}", offset,
                           reinterpret_cast<const char*>(message.data()));
  }
  return std::make_shared<const RegexRule>(expression, std::move(code));
}

ModulePattern ModulePattern::Exact(std::string name) {
  return ModulePattern(std::make_shared<const ExactRule>(std::move(name)));
}

ModulePattern ModulePattern::Everything() {
  return ModulePattern(std::make_shared<const EverythingRule>());
}

ModulePattern ModulePattern::Wildcard(std::string text) {
  return ModulePattern(std::make_shared<const WildcardRule>(std::move(text)));
}

absl::StatusOr<ModulePattern> ModulePattern::Regex(const std::string& expression) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto rule, MakeRegex(expression));
  return ModulePattern(std::move(rule));
}

absl::StatusOr<ModulePattern> ModulePattern::CompressedTensors(const std::string& text) {
  if (text.starts_with(kRegexPrefix)) return Regex(text.substr(kRegexPrefix.size()));
  return Exact(text);
}

absl::StatusOr<ModulePattern> ModulePattern::NotConverted(const std::string& text) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto regex, MakeRegex("(?:" + text + ")(?:(?<=\\.)|(?=\\.|$))"));
  return ModulePattern(std::make_shared<const NotConvertedRule>(text, std::move(regex)));
}

absl::StatusOr<bool> ModulePattern::Matches(std::string_view module) const {
  return rule_->Matches(module);
}

}  // namespace lockstep
