#include "router/calls/scanners/literal_scanner.h"

#include <algorithm>
#include <utility>

#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

constexpr uint32_t kReplacementCharacter = 0xFFFD;

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsIdentifierByte(char c) {
  return IsAlphanumeric(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool IsDigitOfBase(char c, int base) {
  const bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  return base == 16 ? is_hex : c >= '0' && c <= '7';
}

}  // namespace

ScanState LiteralScanner::Push(char c, std::string& out) {
  switch (at_) {
    case At::kBareKey:
      return PushBareKey(c, out);
    case At::kBare:
      return PushBare(c, out);
    case At::kDelimiter:
      return PushDelimiter(c, out);
    case At::kString:
      return PushString(c, out);
    case At::kEscape:
      return PushEscape(c, out);
    case At::kCode:
      return PushCode(c, out);
    case At::kEnd:
      return ScanState::kBad;
    default:
      break;
  }
  return IsJsonSpace(c) ? ScanState::kMore : PushStructure(c, out);
}

ScanState LiteralScanner::PushStructure(char c, std::string& out) {
  const bool closes = !open_.empty() && c == (open_.back() == '{'   ? '}'
                                              : open_.back() == '[' ? ']'
                                                                    : ')');
  switch (at_) {
    case At::kStart:
      if (c != (dialect_ == Dialect::kPython ? '(' : '{')) return ScanState::kBad;
      return Open(c, out) ? ScanState::kMore : ScanState::kBad;
    case At::kFirstKey:
    case At::kKey:
      return closes ? Close(out) : BeginKey(c, out);
    case At::kBehindKey:
      if (c != (is_keywords() ? '=' : ':')) return ScanState::kBad;
      out.push_back(':');
      at_ = At::kValue;
      return ScanState::kMore;
    case At::kFirstElement:
    case At::kElement:
      if (closes) return Close(out);
      needs_comma_ = at_ == At::kElement;
      return BeginValue(c, out);
    case At::kBehindValue:
      if (closes) return Close(out);
      if (c != ',') return ScanState::kBad;
      at_ = IsObject() ? At::kKey : At::kElement;
      return ScanState::kMore;
    default:
      return BeginValue(c, out);
  }
}

bool LiteralScanner::Open(char c, std::string& out) {
  if (open_.size() == kMaxCallDepth) return false;
  WriteComma(out);
  open_.push_back(c);
  out.push_back(IsObject() ? '{' : '[');
  at_ = IsObject() ? At::kFirstKey : At::kFirstElement;
  return true;
}

void LiteralScanner::WriteComma(std::string& out) {
  if (std::exchange(needs_comma_, false)) out.push_back(',');
}

ScanState LiteralScanner::Close(std::string& out) {
  out.push_back(IsObject() ? '}' : ']');
  open_.pop_back();
  at_ = open_.empty() ? At::kEnd : At::kBehindValue;
  return open_.empty() ? ScanState::kDone : ScanState::kMore;
}

ScanState LiteralScanner::BeginKey(char c, std::string& out) {
  needs_comma_ = at_ == At::kKey;
  if (!is_keywords() && BeginString(c, /*is_key=*/true, out)) return ScanState::kMore;
  if (dialect_ == Dialect::kPython && !is_keywords()) return ScanState::kBad;
  bare_.clear();
  at_ = At::kBareKey;
  return PushBareKey(c, out);
}

ScanState LiteralScanner::PushBareKey(char c, std::string& out) {
  const char end = is_keywords() ? '=' : ':';
  if (c == end || IsJsonSpace(c)) {
    if (bare_.empty()) return ScanState::kBad;
    WriteComma(out);
    out.push_back('"');
    AppendJsonEscaped(bare_, out);
    out.push_back('"');
    if (is_keywords()) {
      if (std::find(keywords_.begin(), keywords_.end(), bare_) != keywords_.end()) {
        return ScanState::kBad;
      }
      keywords_.push_back(bare_);
    }
    at_ = At::kBehindKey;
    return IsJsonSpace(c) ? ScanState::kMore : PushStructure(c, out);
  }
  const bool fits =
      is_keywords() ? IsIdentifierByte(c) : IsIdentifierByte(c) || c == '-' || c == '.' || c == '/';
  if (!fits || bare_.size() == kMaxNumberBytes) return ScanState::kBad;
  bare_.push_back(c);
  return ScanState::kMore;
}

ScanState LiteralScanner::BeginValue(char c, std::string& out) {
  if (BeginString(c, /*is_key=*/false, out)) return ScanState::kMore;
  if (c == '{' || c == '[' || (c == '(' && dialect_ == Dialect::kPython)) {
    return Open(c, out) ? ScanState::kMore : ScanState::kBad;
  }
  bare_.clear();
  at_ = At::kBare;
  return PushBare(c, out);
}

bool LiteralScanner::BeginString(char c, bool is_key, std::string& out) {
  if (dialect_ == Dialect::kGemma) {
    if (c != kGemmaDelimiter[0]) return false;
    delimiter_begin_.Start({kGemmaDelimiter});
    delimiter_begin_.Push(c);
    at_ = At::kDelimiter;
  } else {
    if (c != '"' && c != '\'') return false;
    quote_ = c;
    WriteComma(out);
    out.push_back('"');
    at_ = At::kString;
  }
  string_is_key_ = is_key;
  return true;
}

ScanState LiteralScanner::PushDelimiter(char c, std::string& out) {
  if (IsJsonSpace(c)) return ScanState::kBad;
  const TagChoice::State state = delimiter_begin_.Push(c);
  if (state == TagChoice::State::kMismatch) return ScanState::kBad;
  if (state == TagChoice::State::kMore) return ScanState::kMore;
  WriteComma(out);
  out.push_back('"');
  at_ = At::kString;
  return ScanState::kMore;
}

// A number or a word.
ScanState LiteralScanner::PushBare(char c, std::string& out) {
  const bool is_gemma = dialect_ == Dialect::kGemma;
  const bool ends = c == ',' || c == '}' || c == ']' || (!is_gemma && (c == ')' || IsJsonSpace(c)));
  if (!ends) {
    const bool fits = is_gemma ? c != '{' && c != '[' && c != '<'
                               : IsAlphanumeric(c) || c == '+' || c == '-' || c == '.';
    if (!fits || bare_.size() == kMaxNumberBytes) return ScanState::kBad;
    bare_.push_back(c);
    return ScanState::kMore;
  }
  const std::string_view word = TrimJsonSpace(bare_);
  WriteComma(out);
  if (!AppendScalar(word, out)) {
    if (!is_gemma || word.empty()) return ScanState::kBad;
    AppendJsonQuoted(word, out);
  }
  at_ = At::kBehindValue;
  return IsJsonSpace(c) ? ScanState::kMore : PushStructure(c, out);
}

ScanState LiteralScanner::PushString(char c, std::string& out) {
  if (dialect_ == Dialect::kGemma) {
    std::string text;
    const bool ends = delimiter_.Push(c, text).has_value();
    AppendJsonEscaped(text, out);
    return ends ? EndString(out) : ScanState::kMore;
  }
  if (c == '\\') {
    at_ = At::kEscape;
    return ScanState::kMore;
  }
  AppendCharacter(0, out);
  if (c == quote_) return EndString(out);
  AppendJsonEscaped({&c, 1}, out);
  return ScanState::kMore;
}

ScanState LiteralScanner::EndString(std::string& out) {
  out.push_back('"');
  at_ = string_is_key_ ? At::kBehindKey : At::kBehindValue;
  return ScanState::kMore;
}

// Python 3, "String and Bytes literals".
ScanState LiteralScanner::PushEscape(char c, std::string& out) {
  constexpr std::string_view kNames = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  at_ = At::kString;
  code_.clear();
  num_code_digits_ = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (IsDigitOfBase(c, 8)) {
    num_code_digits_ = 3;
    code_ = c;
  }
  if (num_code_digits_ > 0) {
    at_ = At::kCode;
    return ScanState::kMore;
  }
  AppendCharacter(0, out);
  if (c == '\n') return ScanState::kMore;  // goes on in the next line
  const size_t i = kNames.find(c);
  if (i != std::string_view::npos) {
    AppendJsonEscaped(kMeanings.substr(i, 1), out);
    return ScanState::kMore;
  }
  AppendJsonEscaped("\\", out);  // no escape: Python keeps both characters
  AppendJsonEscaped({&c, 1}, out);
  return ScanState::kMore;
}

ScanState LiteralScanner::PushCode(char c, std::string& out) {
  const bool is_octal = num_code_digits_ == 3;
  if (IsDigitOfBase(c, is_octal ? 8 : 16)) {
    code_.push_back(c);
    if (code_.size() == num_code_digits_) EndCode(out);
    return ScanState::kMore;
  }
  if (!is_octal) return ScanState::kBad;
  EndCode(out);
  return PushString(c, out);
}

void LiteralScanner::EndCode(std::string& out) {
  const auto code =
      static_cast<uint32_t>(std::stoul(code_, nullptr, num_code_digits_ == 3 ? 8 : 16));
  at_ = At::kString;
  const bool is_low = code >= 0xDC00 && code < 0xE000;
  if (is_low && high_surrogate_ != 0) {
    const uint32_t high = std::exchange(high_surrogate_, 0);
    AppendCharacter(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00), out);
    return;
  }
  AppendCharacter(0, out);
  if (code >= 0xD800 && code < 0xDC00) {
    high_surrogate_ = code;
  } else if (is_low || code > 0x10FFFF) {
    AppendCharacter(kReplacementCharacter, out);
  } else if (code == 0) {
    out += "\\u0000";
  } else {
    AppendCharacter(code, out);
  }
}

// First ends a half of a surrogate pair that waits. Code point 0: does only that.
void LiteralScanner::AppendCharacter(uint32_t code_point, std::string& out) {
  if (high_surrogate_ != 0) {
    high_surrogate_ = 0;
    out += EncodeUtf8(kReplacementCharacter);
  }
  if (code_point != 0) AppendJsonEscaped(EncodeUtf8(code_point), out);
}

}  // namespace lockstep::router
