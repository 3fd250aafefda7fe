#include "router/text/template_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "common/status.h"

namespace lockstep::router {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNamePart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsMark(char c) { return c == '-' || c == '+'; }

struct TagSyntax {
  TemplatePartKind kind;
  std::string_view opening;
  std::string_view closing;
};
constexpr std::array<TagSyntax, 3> kTags = {{
    {TemplatePartKind::kExpression, "{{", "}}"},
    {TemplatePartKind::kStatement, "{%", "%}"},
    {TemplatePartKind::kComment, "{#", "#}"},
}};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : in_(source) {}

  absl::StatusOr<std::vector<TemplatePart>> Run() {
    size_t text_begin = 0;
    while (pos_ < in_.size()) {
      const TagSyntax* tag = TagHere();
      if (tag == nullptr) {
        ++pos_;
        continue;
      }
      AddText(text_begin, pos_);
      LOCKSTEP_RETURN_IF_ERROR(Tag(*tag));
      text_begin = pos_;
    }
    AddText(text_begin, in_.size());
    ControlWhiteSpace();
    return std::move(parts_);
  }

 private:
  const TagSyntax* TagHere() const {
    for (const TagSyntax& tag : kTags) {
      if (in_.substr(pos_, 2) == tag.opening) return &tag;
    }
    return nullptr;
  }

  void AddText(size_t begin, size_t end) {
    if (begin == end) return;
    AddPart(TemplatePartKind::kText, begin).body = in_.substr(begin, end - begin);
  }

  TemplatePart& AddPart(TemplatePartKind kind, size_t begin) {
    line_ += static_cast<size_t>(std::count(in_.begin() + static_cast<ptrdiff_t>(counted_),
                                            in_.begin() + static_cast<ptrdiff_t>(begin), '\n'));
    counted_ = begin;
    TemplatePart& part = parts_.emplace_back();
    part.kind = kind;
    part.line = line_;
    return part;
  }

  absl::Status Tag(const TagSyntax& tag) {
    TemplatePart& part = AddPart(tag.kind, pos_);
    pos_ += 2;
    if (pos_ < in_.size() && IsMark(in_[pos_])) part.opening_mark = in_[pos_++];
    const size_t begin = pos_;
    const std::optional<size_t> end =
        tag.kind == TemplatePartKind::kComment ? CommentEnd() : CodeEnd(tag.closing, part);
    if (!end) {
      return InvalidArgument("chat template, line {}: \"{}\" without \"{}\"", part.line,
                             tag.opening, tag.closing);
    }
    part.body = in_.substr(begin, *end - begin);
    if (in_[*end] == '-' || in_[*end] == '+') part.closing_mark = in_[*end];
    pos_ = *end + (part.closing_mark != '\0' ? 3 : 2);
    return absl::OkStatus();
  }

  // Where the closing delimiter starts, its mark included.
  std::optional<size_t> CommentEnd() const {
    const size_t close = in_.find("#}", pos_);
    if (close == std::string_view::npos) return std::nullopt;
    return close > pos_ && IsMark(in_[close - 1]) ? close - 1 : close;
  }

  // The same for code, whose tokens it reads; a delimiter inside brackets is none.
  std::optional<size_t> CodeEnd(std::string_view closing, TemplatePart& part) {
    size_t depth = 0;
    while (pos_ < in_.size()) {
      const char c = in_[pos_];
      if (IsSpace(c)) {
        ++pos_;
        continue;
      }
      if (depth == 0) {
        if (in_.substr(pos_, 2) == closing) return pos_;
        if (IsMark(c) && in_.substr(pos_ + 1, 2) == closing) return pos_;
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
      ReadToken(part);
    }
    return std::nullopt;
  }

  void ReadToken(TemplatePart& part) {
    const size_t begin = pos_;
    const char c = in_[pos_];
    TemplateTokenKind kind = TemplateTokenKind::kSymbol;
    if (c == '"' || c == '\'') {
      kind = TemplateTokenKind::kString;
      for (++pos_; pos_ < in_.size() && in_[pos_] != c; ++pos_) {
        if (in_[pos_] == '\\') ++pos_;
      }
      pos_ = std::min(pos_ + 1, in_.size());
    } else if (IsNameStart(c) || IsDigit(c)) {
      kind = IsDigit(c) ? TemplateTokenKind::kNumber : TemplateTokenKind::kName;
      while (pos_ < in_.size() && IsNamePart(in_[pos_])) ++pos_;
    } else {
      const std::string_view two = in_.substr(pos_, 2);
      pos_ += two == "//" || two == "==" || two == "!=" || two == "<=" || two == ">=" ? 2 : 1;
    }
    part.tokens.push_back({kind, in_.substr(begin, pos_ - begin)});
  }

  void ControlWhiteSpace() {
    bool at_line_start = true;  // of the source, after what the tag before has taken along
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].kind != TemplatePartKind::kText) {
        at_line_start = false;
        continue;
      }
      std::string_view& text = parts_[i].body;
      if (i > 0) at_line_start = TrimStart(parts_[i - 1], text);
      if (i + 1 < parts_.size()) TrimEnd(parts_[i + 1], at_line_start, text);
      at_line_start = false;
    }
  }

  // Returns whether the text now starts a line.
  static bool TrimStart(const TemplatePart& tag, std::string_view& text) {
    if (tag.closing_mark == '-') {
      bool after_newline = false;
      while (!text.empty() && IsSpace(text.front())) {
        after_newline = text.front() == '\n';
        text.remove_prefix(1);
      }
      return after_newline;
    }
    const bool trims_newline = tag.kind != TemplatePartKind::kExpression && tag.closing_mark != '+';
    if (!trims_newline || !text.starts_with('\n')) return false;
    text.remove_prefix(1);
    return true;
  }

  static void TrimEnd(const TemplatePart& tag, bool at_line_start, std::string_view& text) {
    if (tag.opening_mark == '-') {
      while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
      return;
    }
    if (tag.kind == TemplatePartKind::kExpression || tag.opening_mark == '+') return;
    const size_t line_begin = text.rfind('\n') + 1;  // 0 without a line break
    if (line_begin == 0 && !at_line_start) return;
    if (std::all_of(text.begin() + static_cast<ptrdiff_t>(line_begin), text.end(), IsSpace)) {
      text = text.substr(0, line_begin);
    }
  }

  const std::string_view in_;
  size_t pos_ = 0;
  size_t line_ = 1;  // of position counted_
  size_t counted_ = 0;
  std::vector<TemplatePart> parts_;
};

}  // namespace

absl::StatusOr<std::vector<TemplatePart>> LexTemplate(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace lockstep::router
