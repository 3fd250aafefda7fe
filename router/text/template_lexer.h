#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

enum class TemplateTokenKind { kName, kNumber, kString, kSymbol };

struct TemplateToken {
  TemplateTokenKind kind;
  std::string_view text;  // of a string: with its quotes

  bool IsSymbol(std::string_view symbol) const {
    return kind == TemplateTokenKind::kSymbol && text == symbol;
  }
};

enum class TemplatePartKind { kText, kExpression, kStatement, kComment };

// A stretch of a template: text, or one tag.
struct TemplatePart {
  TemplatePartKind kind;
  std::string_view body;  // of a tag: between the delimiters and their white space marks
  size_t line;            // where it starts, from 1
  std::vector<TemplateToken> tokens;
  char opening_mark = '\0';  // '-', '+' or none
  char closing_mark = '\0';
};

// Cuts a Jinja template (jinja.palletsprojects.com/templates) into parts, with the white space
// control that Hugging Face's library chooses for chat templates: trim_blocks, lstrip_blocks and
// the marks are carried out, so text bodies are what will be printed. Views point into `source`,
// which must have "\n" line ends only. INVALID_ARGUMENT, with the line, for a tag that does not
// end.
absl::StatusOr<std::vector<TemplatePart>> LexTemplate(std::string_view source);

}  // namespace lockstep::router
