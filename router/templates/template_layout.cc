#include "router/templates/template_layout.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "common/status.h"

namespace lockstep::router {
namespace {

enum class PartKind { kText, kExpression, kStatement, kComment };

// A stretch of a template: text, or one tag. Views point into the source.
struct Part {
  PartKind kind;
  std::string_view body;     // of a tag: between the delimiters and their white space marks
  size_t line;               // where it starts, from 1
  char opening_mark = '\0';  // '-', '+' or none
  char closing_mark = '\0';
};

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsMark(char c) { return c == '-' || c == '+'; }

size_t NumLines(std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

struct TagSyntax {
  PartKind kind;
  std::string_view opening;
  std::string_view closing;
};
constexpr std::array<TagSyntax, 3> kTags = {{
    {PartKind::kExpression, "{{", "}}"},
    {PartKind::kStatement, "{%", "%}"},
    {PartKind::kComment, "{#", "#}"},
}};

// Cuts a source into parts.
class Cutter {
 public:
  explicit Cutter(std::string_view source) : in_(source) {}

  absl::StatusOr<std::vector<Part>> Run() {
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
    if (begin != end) AddPart(PartKind::kText, begin).body = in_.substr(begin, end - begin);
  }

  Part& AddPart(PartKind kind, size_t begin) {
    line_ += NumLines(in_.substr(counted_, begin - counted_));
    counted_ = begin;
    return parts_.emplace_back(Part{.kind = kind, .body = {}, .line = line_});
  }

  absl::Status Tag(const TagSyntax& tag) {
    Part& part = AddPart(tag.kind, pos_);
    pos_ += 2;
    if (pos_ < in_.size() && IsMark(in_[pos_])) part.opening_mark = in_[pos_++];
    const size_t begin = pos_;
    const std::optional<size_t> end =
        tag.kind == PartKind::kComment ? CommentEnd() : CodeEnd(tag.closing);
    if (!end) {
      return InvalidArgument("chat template, line {}: \"{}\" without \"{}\"", part.line,
                             tag.opening, tag.closing);
    }
    part.body = in_.substr(begin, *end - begin);
    if (IsMark(in_[*end])) part.closing_mark = in_[*end];
    pos_ = *end + (part.closing_mark != '\0' ? 3 : 2);
    return absl::OkStatus();
  }

  // Where the closing delimiter starts, its mark included.
  std::optional<size_t> CommentEnd() const {
    const size_t close = in_.find("#}", pos_);
    if (close == std::string_view::npos) return std::nullopt;
    return close > pos_ && IsMark(in_[close - 1]) ? close - 1 : close;
  }

  // The same for code. A delimiter inside brackets or a string is none.
  std::optional<size_t> CodeEnd(std::string_view closing) {
    size_t depth = 0;
    while (pos_ < in_.size()) {
      const char c = in_[pos_];
      if (depth == 0) {
        if (in_.substr(pos_, 2) == closing) return pos_;
        if (IsMark(c) && in_.substr(pos_ + 1, 2) == closing) return pos_;
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
      if (c == '"' || c == '\'') {
        SkipString(c);
      } else {
        ++pos_;
      }
    }
    return std::nullopt;
  }

  void SkipString(char quote) {
    for (++pos_; pos_ < in_.size() && in_[pos_] != quote; ++pos_) {
      if (in_[pos_] == '\\') ++pos_;
    }
    pos_ = std::min(pos_ + 1, in_.size());
  }

  const std::string_view in_;
  size_t pos_ = 0;
  size_t line_ = 1;  // of position counted_
  size_t counted_ = 0;
  std::vector<Part> parts_;
};

// Trims what the tag before takes along. Returns whether the text now starts a line.
bool TrimStart(const Part& tag, std::string_view& text) {
  if (tag.closing_mark == '-') {
    bool after_newline = false;
    while (!text.empty() && IsSpace(text.front())) {
      after_newline = text.front() == '\n';
      text.remove_prefix(1);
    }
    return after_newline;
  }
  const bool trims_newline = tag.kind != PartKind::kExpression && tag.closing_mark != '+';
  if (!trims_newline || !text.starts_with('\n')) return false;
  text.remove_prefix(1);
  return true;
}

// The same for the tag behind the text.
void TrimEnd(const Part& tag, bool at_line_start, std::string_view& text) {
  if (tag.opening_mark == '-') {
    while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
    return;
  }
  if (tag.kind == PartKind::kExpression || tag.opening_mark == '+') return;
  const size_t line_begin = text.rfind('\n') + 1;  // 0 without a line break
  if (line_begin == 0 && !at_line_start) return;
  if (std::all_of(text.begin() + static_cast<ptrdiff_t>(line_begin), text.end(), IsSpace)) {
    text = text.substr(0, line_begin);
  }
}

void ControlWhiteSpace(std::vector<Part>& parts) {
  bool at_line_start = true;  // of the source, after what the tag before has taken along
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].kind == PartKind::kText) {
      std::string_view& text = parts[i].body;
      if (i > 0) at_line_start = TrimStart(parts[i - 1], text);
      if (i + 1 < parts.size()) TrimEnd(parts[i + 1], at_line_start, text);
    }
    at_line_start = false;
  }
}

// The library looks for each of its tokens in the whole rest of the source although only a match
// right here counts, which makes parsing quadratic. A comment behind every tag in which every token
// occurs ends those searches early.
constexpr std::string_view kSearchStop =
    "x true null None if else endif or and not in is recursive x.y x=1 + - * / % ~ == {{ }} {% %} "
    "x";

void WriteComment(size_t num_newlines, std::string& out) {
  out += "{#";
  out += kSearchStop;
  out.append(num_newlines, '\n');
  out += "#}";
}

void WriteText(std::string_view text, std::string& out) {
  if (text.empty()) return;
  out += "{{ \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += "\" }}";
}

void WritePart(const Part& part, std::string& out) {
  switch (part.kind) {
    case PartKind::kText:
      return WriteText(part.body, out);
    case PartKind::kComment:
      return WriteComment(NumLines(part.body), out);
    case PartKind::kExpression:
      out.append("{{ ").append(part.body).append(" }}");
      return;
    case PartKind::kStatement:
      out.append("{% ").append(part.body).append(" %}");
      return;
  }
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

}  // namespace

absl::StatusOr<std::string> LayOutTemplate(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return InvalidArgument("chat template of {} bytes, expected at most {}", source.size(),
                           kMaxTemplateBytes);
  }
  const std::string normalized = NormalizeNewlines(source);
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Part> parts, Cutter(normalized).Run());
  ControlWhiteSpace(parts);
  std::string out;
  size_t line = 1;  // where the new source has arrived
  for (const Part& part : parts) {
    const size_t missing = part.line > line ? part.line - line : 0;
    if (missing > 0 || part.kind != PartKind::kText) WriteComment(missing, out);
    line += missing;
    WritePart(part, out);
    line += NumLines(part.body);
  }
  WriteComment(0, out);
  return out;
}

}  // namespace lockstep::router
