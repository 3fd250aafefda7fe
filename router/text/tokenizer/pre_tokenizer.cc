#include "router/text/tokenizer/pre_tokenizer.h"

#include <array>
#include <utility>

#include "router/text/unicode/char_class.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

constexpr char32_t kLongS = 0x17F;  // folds to "s"

// A text and the classes of its characters.
class Cursor {
 public:
  Cursor(std::string_view text, const CharClasses& classes) : text_(text), classes_(classes) {}

  size_t size() const { return text_.size(); }
  char byte(size_t offset) const { return text_[offset]; }
  DecodedChar Char(size_t offset) const { return DecodeUtf8(text_, offset); }
  CharClass Class(size_t offset) const { return classes_[Char(offset).code_point]; }
  // The end of the run of `wanted` that starts at `offset`.
  size_t RunEnd(size_t offset, CharClass wanted) const {
    while (offset < text_.size()) {
      const DecodedChar c = Char(offset);
      if (classes_[c.code_point] != wanted) break;
      offset += c.length;
    }
    return offset;
  }
  // \s+(?!\S)|\s+ : a run of white space leaves its last character to the word that follows.
  size_t SpacesEnd(size_t begin) const {
    const size_t end = RunEnd(begin, CharClass::kSpace);
    if (end == text_.size()) return end;
    const size_t last = PreviousCharOffset(text_, end);
    return last > begin ? last : end;
  }

 private:
  std::string_view text_;
  const CharClasses& classes_;
};

// 's|'t|'re|'ve|'m|'ll|'d at `begin`; `begin` if there is none. With `fold_case` as (?i:...).
size_t ContractionEnd(const Cursor& text, size_t begin, bool fold_case) {
  const auto letter = [&](size_t offset) -> char {
    if (offset >= text.size()) return '\0';
    const char c = text.byte(offset);
    if (fold_case && c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
    return c;
  };
  if (text.byte(begin) != '\'') return begin;
  const char first = letter(begin + 1);
  const char second = letter(begin + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return begin + 3;
  if (first == 'l' && second == 'l') return begin + 3;
  if (fold_case && begin + 1 < text.size()) {
    const DecodedChar next = text.Char(begin + 1);
    if (next.code_point == kLongS) return begin + 1 + next.length;
  }
  return begin;
}

class Gpt2Splitter final : public Splitter {
 public:
  std::optional<size_t> PieceEnd(std::string_view source, size_t begin,
                                 PatternBudget& /*budget*/) const override {
    const Cursor text(source, classes_);
    if (const size_t end = ContractionEnd(text, begin, false); end > begin) return end;
    const size_t after_space = begin + (text.byte(begin) == ' ' ? 1 : 0);
    if (after_space < text.size()) {
      const DecodedChar first = text.Char(after_space);
      const CharClass kind = classes_[first.code_point];
      if (kind != CharClass::kSpace) return text.RunEnd(after_space + first.length, kind);
    }
    return text.SpacesEnd(begin);
  }

 private:
  const CharClasses classes_;
};

// Llama 3 and Qwen2 differ in the number of digits that stay together.
class Llama3Splitter final : public Splitter {
 public:
  explicit Llama3Splitter(int max_digits) : max_digits_(max_digits) {}

  std::optional<size_t> PieceEnd(std::string_view source, size_t begin,
                                 PatternBudget& /*budget*/) const override {
    const Cursor text(source, classes_);
    if (const size_t end = ContractionEnd(text, begin, true); end > begin) return end;
    const DecodedChar first = text.Char(begin);
    const CharClass kind = classes_[first.code_point];
    const size_t second = begin + first.length;
    if (kind == CharClass::kLetter) return text.RunEnd(second, kind);
    if (kind == CharClass::kNumber) return DigitsEnd(text, second);
    if (!IsNewline(text, begin)) {  // [^\r\n\p{L}\p{N}]?\p{L}+
      const size_t end = text.RunEnd(second, CharClass::kLetter);
      if (end > second) return end;
    }
    if (kind == CharClass::kOther) return SymbolsEnd(text, second);
    if (text.byte(begin) == ' ' && second < text.size() &&
        text.Class(second) == CharClass::kOther) {
      return SymbolsEnd(text, second);
    }
    return SpacesOrNewlinesEnd(text, begin);
  }

 private:
  static bool IsNewline(const Cursor& text, size_t offset) {
    return text.byte(offset) == '\n' || text.byte(offset) == '\r';
  }
  size_t DigitsEnd(const Cursor& text, size_t end) const {
    for (int count = 1; count < max_digits_ && end < text.size(); ++count) {
      const DecodedChar c = text.Char(end);
      if (classes_[c.code_point] != CharClass::kNumber) break;
      end += c.length;
    }
    return end;
  }
  // [^\s\p{L}\p{N}]*[\r\n]*
  static size_t SymbolsEnd(const Cursor& text, size_t begin) {
    size_t end = text.RunEnd(begin, CharClass::kOther);
    while (end < text.size() && IsNewline(text, end)) ++end;
    return end;
  }
  // \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line break of the run, if it has one.
  static size_t SpacesOrNewlinesEnd(const Cursor& text, size_t begin) {
    size_t end = text.RunEnd(begin, CharClass::kSpace);
    while (end > begin && !IsNewline(text, end - 1)) --end;
    return end > begin ? end : text.SpacesEnd(begin);
  }

  const CharClasses classes_;
  const int max_digits_;
};

class DigitSplitter final : public Splitter {
 public:
  explicit DigitSplitter(bool individual) : individual_(individual) {}

  std::optional<size_t> PieceEnd(std::string_view source, size_t begin,
                                 PatternBudget& /*budget*/) const override {
    const Cursor text(source, classes_);
    const DecodedChar first = text.Char(begin);
    const bool is_number = classes_[first.code_point] == CharClass::kNumber;
    size_t end = begin + first.length;
    if (is_number && individual_) return end;
    while (end < text.size() && (text.Class(end) == CharClass::kNumber) == is_number) {
      end += text.Char(end).length;
    }
    return end;
  }

 private:
  const CharClasses classes_;
  const bool individual_;
};

constexpr std::array<std::pair<KnownPattern, std::string_view>, 3> kPatternSources = {{
    {KnownPattern::kGpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {KnownPattern::kLlama3, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                            R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {KnownPattern::kQwen2, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};

}  // namespace

std::unique_ptr<const Splitter> MakeKnownSplitter(KnownPattern pattern) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return std::make_unique<Gpt2Splitter>();
    case KnownPattern::kLlama3:
      return std::make_unique<Llama3Splitter>(/*max_digits=*/3);
    case KnownPattern::kQwen2:
      return std::make_unique<Llama3Splitter>(/*max_digits=*/1);
  }
  return nullptr;
}

std::unique_ptr<const Splitter> MakeDigitSplitter(bool individual_digits) {
  return std::make_unique<DigitSplitter>(individual_digits);
}

std::string_view PatternSource(KnownPattern pattern) {
  return kPatternSources[static_cast<size_t>(pattern)].second;
}

std::optional<KnownPattern> FindKnownPattern(std::string_view source) {
  for (const auto& [pattern, text] : kPatternSources) {
    if (text == source) return pattern;
  }
  return std::nullopt;
}

bool PreTokenizer::Split(std::string_view text,
                         absl::FunctionRef<bool(std::string_view)> sink) const {
  Run run{.sink = sink, .budget = PatternBudget(text.size())};
  return text.empty() || SplitFrom(0, text, run) != Outcome::kGaveUp;
}

PreTokenizer::Outcome PreTokenizer::SplitFrom(size_t stage_index, std::string_view text,
                                              Run& run) const {
  if (stage_index == stages_.size()) return run.sink(text) ? Outcome::kDone : Outcome::kStopped;
  const Stage& stage = stages_[stage_index];
  std::string prefixed;
  if (stage.add_prefix_space && text.front() != ' ') {
    prefixed.reserve(text.size() + 1);
    prefixed.push_back(' ');
    prefixed += text;
    text = prefixed;
  }
  if (stage.splitter == nullptr) return SplitFrom(stage_index + 1, text, run);
  for (size_t begin = 0; begin < text.size();) {
    const std::optional<size_t> end = stage.splitter->PieceEnd(text, begin, run.budget);
    if (!end) return Outcome::kGaveUp;
    const Outcome outcome = SplitFrom(stage_index + 1, text.substr(begin, *end - begin), run);
    if (outcome != Outcome::kDone) return outcome;
    begin = *end;
  }
  return Outcome::kDone;
}

}  // namespace lockstep::router
