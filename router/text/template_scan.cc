#include "router/text/template_scan.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include "common/status.h"
#include "router/text/template_lexer.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxSourceBytes = 64 * 1024;
constexpr size_t kMaxNesting = 48;  // of brackets in a tag, of blocks in the template
constexpr size_t kMaxOperatorsPerTag = 256;
constexpr size_t kMaxTokensPerTag = 1024;
constexpr size_t kMaxNameBytes = 128;       // also of numbers
constexpr size_t kMaxSpaceRunBytes = 1024;  // the library's patterns recurse over such a run

// The library looks for each of its tokens in the whole rest of the source although only a match
// right here counts, which makes parsing quadratic. A comment behind every tag in which every token
// occurs ends those searches early.
constexpr std::string_view kSearchStop =
    "x true null None if else endif or and not in is recursive x.y x=1 + - * / % ~ == {{ }} {% %} "
    "x";

constexpr std::array<std::string_view, 16> kStatements = {
    "if",    "elif",     "else",   "endif",     "for",   "endfor",   "set",        "endset",
    "macro", "endmacro", "filter", "endfilter", "break", "continue", "generation", "endgeneration"};
constexpr std::array<std::string_view, 8> kKeywords = {"and", "or", "not",  "in",
                                                       "is",  "if", "else", "recursive"};

template <typename List>
bool Contains(const List& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Status Refuse(const TemplatePart& part, std::string_view what) {
  return InvalidArgument("chat template, line {}: {}", part.line, what);
}

// "\r\n" and "\r" are line ends too, and the last one belongs to the file, not to the text.
std::string NormalizeNewlines(std::string_view source) {
  std::string normalized;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    normalized += source[i] == '\r' ? '\n' : source[i];
  }
  if (normalized.ends_with('\n')) normalized.pop_back();
  return normalized;
}

absl::Status CheckSize(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return InvalidArgument("chat template of {} bytes, expected at most {}", source.size(),
                           kMaxSourceBytes);
  }
  size_t run = 0;
  for (const char c : source) {
    run = std::isspace(static_cast<unsigned char>(c)) != 0 ? run + 1 : 0;
    if (run > kMaxSpaceRunBytes) {
      return InvalidArgument("chat template with more than {} bytes of white space in a row",
                             kMaxSpaceRunBytes);
    }
  }
  return absl::OkStatus();
}

// x % 0 would end the process.
absl::Status CheckDivisor(const TemplatePart& tag, size_t index) {
  if (index + 1 < tag.tokens.size()) {
    const TemplateToken& divisor = tag.tokens[index + 1];
    const bool is_constant = divisor.kind == TemplateTokenKind::kNumber &&
                             std::all_of(divisor.text.begin(), divisor.text.end(), IsDigit);
    if (is_constant && divisor.text.find_first_not_of('0') != std::string_view::npos) {
      return absl::OkStatus();
    }
  }
  return Refuse(tag, fmt::format("\"{}\" with a divisor that is not a positive integer constant",
                                 tag.tokens[index].text));
}

// Brackets and what stands in them.
absl::Status CheckBrackets(const TemplatePart& tag) {
  struct Bracket {
    std::string_view text;
    size_t index;
    size_t num_colons;
  };
  std::vector<Bracket> open;
  for (size_t i = 0; i < tag.tokens.size(); ++i) {
    const TemplateToken& token = tag.tokens[i];
    if (token.kind != TemplateTokenKind::kSymbol) continue;
    if (token.text == "(" || token.text == "[" || token.text == "{") {
      open.push_back({token.text, i, 0});
      if (open.size() > kMaxNesting) {
        return Refuse(tag, fmt::format("brackets nested deeper than {}", kMaxNesting));
      }
    } else if ((token.text == ")" || token.text == "]" || token.text == "}") && !open.empty()) {
      open.pop_back();
    } else if (token.text == ":" && !open.empty() && open.back().text == "[") {
      // In [::step] the second colon is the second token behind the bracket.
      if (++open.back().num_colons == 2 && i != open.back().index + 2) {
        return Refuse(tag, "slice with bounds and a step");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const TemplatePart& tag) {
  constexpr std::string_view kPunctuation = ",:)]}";
  size_t num_operators = 0;
  for (size_t i = 0; i < tag.tokens.size(); ++i) {
    const TemplateToken& token = tag.tokens[i];
    if (token.kind == TemplateTokenKind::kSymbol) {
      if (kPunctuation.find(token.text) == std::string_view::npos) ++num_operators;
      if (token.text == "%" || token.text == "/" || token.text == "//") {
        LOCKSTEP_RETURN_IF_ERROR(CheckDivisor(tag, i));
      }
    } else if (token.kind != TemplateTokenKind::kString) {
      if (Contains(kKeywords, token.text)) ++num_operators;
      if (token.text.size() > kMaxNameBytes) {
        return Refuse(tag, fmt::format("name of more than {} bytes", kMaxNameBytes));
      }
    }
  }
  if (num_operators > kMaxOperatorsPerTag || tag.tokens.size() > kMaxTokensPerTag) {
    return Refuse(tag, fmt::format("more than {} operators or {} tokens in one tag",
                                   kMaxOperatorsPerTag, kMaxTokensPerTag));
  }
  return CheckBrackets(tag);
}

class Scanner {
 public:
  absl::StatusOr<TemplateScan> Run(std::string_view source) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TemplatePart> parts, LexTemplate(source));
    size_t line = 1;  // where the rewritten source has arrived
    for (const TemplatePart& part : parts) {
      const size_t missing = part.line > line ? part.line - line : 0;
      if (missing > 0 || part.kind != TemplatePartKind::kText) Comment(missing);
      line += missing;
      LOCKSTEP_RETURN_IF_ERROR(Part(part));
      line += static_cast<size_t>(std::count(part.body.begin(), part.body.end(), '\n'));
    }
    Comment(0);
    for (const std::string& macro : macros_) {
      if (plain_names_.contains(macro)) {
        return InvalidArgument("chat template: macro \"{}\" used as a value", macro);
      }
      scan_.callables.erase(macro);
    }
    for (const std::string& name : plain_names_) scan_.callables.erase(name);
    return std::move(scan_);
  }

 private:
  void Comment(size_t num_newlines) {
    scan_.source += "{#";
    scan_.source += kSearchStop;
    scan_.source.append(num_newlines, '\n');
    scan_.source += "#}";
  }

  absl::Status Part(const TemplatePart& part) {
    switch (part.kind) {
      case TemplatePartKind::kText:
        Text(part.body);
        return absl::OkStatus();
      case TemplatePartKind::kComment:
        Comment(static_cast<size_t>(std::count(part.body.begin(), part.body.end(), '\n')));
        return absl::OkStatus();
      case TemplatePartKind::kExpression:
        LOCKSTEP_RETURN_IF_ERROR(CheckTokens(part));
        CollectNames(part, 0);
        scan_.source.append("{{ ").append(part.body).append(" }}");
        return absl::OkStatus();
      case TemplatePartKind::kStatement:
        LOCKSTEP_RETURN_IF_ERROR(CheckTokens(part));
        LOCKSTEP_RETURN_IF_ERROR(Statement(part));
        scan_.source.append("{% ").append(part.body).append(" %}");
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  // Text as a string constant, so that the library's own white space rules never see it.
  void Text(std::string_view text) {
    if (text.empty()) return;
    scan_.source += "{{ \"";
    for (const char c : text) {
      if (c == '"' || c == '\\') scan_.source += '\\';
      scan_.source += c;
    }
    scan_.source += "\" }}";
  }

  absl::Status Statement(const TemplatePart& tag) {
    const std::vector<TemplateToken>& tokens = tag.tokens;
    const std::string_view keyword = tokens.empty() ? std::string_view() : tokens[0].text;
    if (!Contains(kStatements, keyword)) {
      return Refuse(tag, fmt::format("statement \"{}\" is not supported", keyword));
    }
    if (keyword == "macro" && tokens.size() > 1) {
      if (Contains(blocks_, "for") || Contains(blocks_, "macro")) {
        return Refuse(tag, "macro inside a loop or a macro");
      }
      macros_.insert(std::string(tokens[1].text));
    }
    if (keyword == "filter" && tokens.size() > 1) {
      scan_.callables.insert(std::string(tokens[1].text));
    }
    if (keyword == "for" && tokens.back().text == "recursive") return Refuse(tag, "recursive loop");
    LOCKSTEP_RETURN_IF_ERROR(TrackBlocks(tag, keyword));
    // What a macro defines and what a filter block applies is no variable.
    CollectNames(tag, keyword == "macro" || keyword == "filter" ? 2 : 1);
    return absl::OkStatus();
  }

  absl::Status TrackBlocks(const TemplatePart& tag, std::string_view keyword) {
    constexpr std::array<std::string_view, 5> kOpening = {"if", "for", "macro", "filter",
                                                          "generation"};
    const bool has_value = std::any_of(tag.tokens.begin(), tag.tokens.end(),
                                       [](const TemplateToken& t) { return t.IsSymbol("="); });
    if (Contains(kOpening, keyword) || (keyword == "set" && !has_value)) {
      blocks_.push_back(keyword);
    } else if (keyword.starts_with("end") && !blocks_.empty()) {
      blocks_.pop_back();
    }
    if (blocks_.size() <= kMaxNesting) return absl::OkStatus();
    return Refuse(tag, fmt::format("blocks nested deeper than {}", kMaxNesting));
  }

  // Sorts the variables of the tag into those called and those used otherwise.
  void CollectNames(const TemplatePart& tag, size_t first) {
    const auto text_at = [&](size_t i) {
      return i < tag.tokens.size() ? tag.tokens[i].text : std::string_view();
    };
    for (size_t i = first; i < tag.tokens.size(); ++i) {
      const TemplateToken& token = tag.tokens[i];
      if (token.kind != TemplateTokenKind::kName || Contains(kKeywords, token.text)) continue;
      const std::string_view before = i > 0 ? text_at(i - 1) : std::string_view();
      const bool is_test = before == "is" || (before == "not" && i > 1 && text_at(i - 2) == "is");
      if (before == "." || is_test) continue;
      const bool is_called = before == "|" || text_at(i + 1) == "(";
      (is_called ? scan_.callables : plain_names_).insert(std::string(token.text));
    }
  }

  TemplateScan scan_;
  std::vector<std::string_view> blocks_;  // open statements, outermost first
  std::set<std::string> macros_;
  std::set<std::string> plain_names_;
};

}  // namespace

absl::StatusOr<TemplateScan> ScanTemplate(std::string_view source) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSize(source));
  const std::string normalized = NormalizeNewlines(source);
  return Scanner().Run(normalized);
}

}  // namespace lockstep::router
