#include "common/json/json_scanner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "common/utf8.h"

namespace lockstep {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kMaxNumberBytes = 1000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t EncodedBytes(uint32_t code_point) {
  return code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  const size_t num_bytes = EncodedBytes(code_point);
  if (num_bytes == 1) {
    out += static_cast<char>(code_point);
    return;
  }
  constexpr uint32_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[num_bytes] | code_point >> (6 * (num_bytes - 1)));
  for (size_t i = num_bytes - 1; i-- > 0;) {
    out += static_cast<char>(0x80 | (code_point >> (6 * i) & 0x3f));
  }
}

bool IsHighSurrogate(uint32_t unit) { return unit >= 0xd800 && unit <= 0xdbff; }
bool IsLowSurrogate(uint32_t unit) { return unit >= 0xdc00 && unit <= 0xdfff; }
uint32_t Combine(uint32_t high, uint32_t low) {
  return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

// '\0': no such escape.
char Unescaped(char letter) {
  switch (letter) {
    case '"':
    case '\\':
    case '/':
      return letter;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return '\0';
  }
}

// The value of the four digits at `at`, which were checked before.
uint32_t HexUnit(std::string_view text, size_t at) {
  uint32_t unit = 0;
  std::from_chars(text.data() + at, text.data() + at + 4, unit, 16);
  return unit;
}

// Decodes the text between the quotes, which was checked before.
std::string Decode(std::string_view text, size_t num_bytes) {
  std::string out;
  out.reserve(num_bytes);
  size_t at = 0;
  while (at < text.size()) {
    const size_t escape = std::min(text.find('\\', at), text.size());
    out.append(text, at, escape - at);
    at = escape;
    if (at == text.size()) break;
    if (text[at + 1] != 'u') {
      out += Unescaped(text[at + 1]);
      at += 2;
      continue;
    }
    uint32_t code_point = HexUnit(text, at + 2);
    at += 6;
    if (IsHighSurrogate(code_point)) {
      code_point = Combine(code_point, HexUnit(text, at + 2));
      at += 6;
    }
    AppendUtf8(code_point, out);
  }
  return out;
}

}  // namespace

bool JsonScanner::Scan() {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  Next next = Next::kValue;
  while (next != Next::kEnd && next != Next::kFailed) {
    SkipSpace();
    token_begin_ = at_;
    switch (next) {
      case Next::kValue:
        next = ReadValue();
        break;
      case Next::kKey:
        next = ReadKey();
        break;
      default:
        next = ReadAfterValue();
        break;
    }
  }
  return next == Next::kEnd;
}

JsonScanner::Next JsonScanner::ReadValue() {
  const auto done = [](bool ok) { return ok ? Next::kAfterValue : Next::kFailed; };
  const char first = Peek();
  switch (first) {
    case '{':
    case '[': {
      if (!(first == '{' ? events_.OnObject() : events_.OnArray())) return Next::kFailed;
      open_.push_back(first);
      ++at_;
      SkipSpace();
      // An empty container ends here. An end must not follow a comma.
      if (Peek() == (first == '{' ? '}' : ']')) return Next::kAfterValue;
      return first == '{' ? Next::kKey : Next::kValue;
    }
    case '"': {
      std::string value;
      return done(ReadString(value) && events_.OnString(std::move(value)));
    }
    case 't':
      return done(ReadWord("true") && events_.OnBool(true));
    case 'f':
      return done(ReadWord("false") && events_.OnBool(false));
    case 'n':
      return done(ReadWord("null") && events_.OnNull());
    default:
      if (first == '-' || IsDigit(first)) return done(ReadNumber());
      return Failed("expected a value");
  }
}

JsonScanner::Next JsonScanner::ReadKey() {
  if (Peek() != '"') return Failed("expected a key");
  std::string key;
  if (!ReadString(key)) return Next::kFailed;
  const bool is_member = open_.size() == 1 && key == member_key_;
  if (!events_.OnKey(std::move(key))) return Next::kFailed;
  SkipSpace();
  if (Peek() != ':') return Failed("expected ':' behind a key");
  ++at_;
  if (is_member) member_begin_ = at_;
  return Next::kValue;
}

JsonScanner::Next JsonScanner::ReadAfterValue() {
  if (open_.empty()) return AtEnd() ? Next::kEnd : Failed("expected the end");
  if (open_.size() == 1 && member_begin_ != 0) {
    member_ = text_.substr(member_begin_, at_ - member_begin_);
    member_begin_ = 0;
  }
  const bool in_object = open_.back() == '{';
  const char next = Peek();
  if (next == (in_object ? '}' : ']')) {
    if (!events_.OnEnd()) return Next::kFailed;
    open_.pop_back();
    ++at_;
    return Next::kAfterValue;
  }
  if (next != ',' || AtEnd()) {
    return Failed(in_object ? "expected ',' or '}'" : "expected ',' or ']'");
  }
  ++at_;
  return in_object ? Next::kKey : Next::kValue;
}

bool JsonScanner::ReadString(std::string& out) {
  const size_t begin = ++at_;
  size_t num_bytes = 0;
  bool has_escapes = false;
  if (!MeasureString(num_bytes, has_escapes) || !events_.OnStringBytes(num_bytes)) return false;
  const std::string_view raw = text_.substr(begin, at_ - 1 - begin);
  out = has_escapes ? Decode(raw, num_bytes) : std::string(raw);
  return true;
}

bool JsonScanner::MeasureString(size_t& num_bytes, bool& has_escapes) {
  while (!AtEnd()) {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '"') {
      ++at_;
      return true;
    }
    if (byte == '\\') {
      has_escapes = true;
      ++at_;
      if (!MeasureEscape(num_bytes)) return false;
    } else if (byte >= 0x80) {
      const size_t size = CharacterBytes(text_, at_);
      if (size == 0) return Fail("a string has a byte that is not UTF-8");
      at_ += size;
      num_bytes += size;
    } else if (byte < 0x20) {
      return Fail("a string has a control character that is not escaped");
    } else {
      ++at_;
      ++num_bytes;
    }
  }
  return Fail("a string has no end");
}

bool JsonScanner::MeasureEscape(size_t& num_bytes) {
  if (Peek() != 'u') {
    if (Unescaped(Peek()) == '\0') return Fail("a string has an unknown escape");
    ++at_;
    ++num_bytes;
    return true;
  }
  ++at_;
  uint32_t unit = 0;
  if (!ReadHex(unit)) return false;
  if (IsLowSurrogate(unit)) return Fail("a string has half a surrogate pair");
  if (!IsHighSurrogate(unit)) {
    num_bytes += EncodedBytes(unit);
    return true;
  }
  uint32_t low = 0;
  if (!text_.substr(at_).starts_with("\\u")) return Fail("a string has half a surrogate pair");
  at_ += 2;
  if (!ReadHex(low)) return false;
  if (!IsLowSurrogate(low)) return Fail("a string has half a surrogate pair");
  num_bytes += EncodedBytes(Combine(unit, low));
  return true;
}

bool JsonScanner::ReadHex(uint32_t& unit) {
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = Peek();
    const bool is_hex = IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!is_hex) return Fail("expected four hexadecimal digits behind \\u");
  }
  unit = HexUnit(text_, at_ - 4);
  return true;
}

bool JsonScanner::ReadDigits() {
  if (!IsDigit(Peek())) return Fail("expected a digit");
  while (IsDigit(Peek())) ++at_;
  return true;
}

bool JsonScanner::ReadNumber() {
  bool is_integer = true;
  if (Peek() == '-') ++at_;
  if (Peek() == '0') {
    ++at_;  // no digit follows: numbers have no zeros in front
  } else if (!ReadDigits()) {
    return false;
  }
  if (Peek() == '.') {
    is_integer = false;
    ++at_;
    if (!ReadDigits()) return false;
  }
  if (Peek() == 'e' || Peek() == 'E') {
    is_integer = false;
    ++at_;
    if (Peek() == '+' || Peek() == '-') ++at_;
    if (!ReadDigits()) return false;
  }
  if (number().size() > kMaxNumberBytes) return Fail("a number is too long");
  return EmitNumber(number(), is_integer);
}

bool JsonScanner::EmitNumber(std::string_view number, bool is_integer) {
  const char* const end = number.data() + number.size();
  if (is_integer && number.front() == '-') {
    int64_t value = 0;
    if (std::from_chars(number.data(), end, value).ec == std::errc()) {
      return events_.OnInteger(value);
    }
  } else if (is_integer) {
    uint64_t value = 0;
    if (std::from_chars(number.data(), end, value).ec == std::errc()) {
      return events_.OnUnsigned(value);
    }
  }
  double value = 0;
  if (std::from_chars(number.data(), end, value).ec != std::errc()) {
    // Too large, or so small that it is zero.
    value = std::strtod(std::string(number).c_str(), nullptr);
    if (!std::isfinite(value)) return Fail("a number is out of range");
  }
  return events_.OnFloat(value);
}

bool JsonScanner::ReadWord(std::string_view word) {
  for (const char c : word) {
    if (Peek() != c) return Fail("expected a value");
    ++at_;
  }
  return true;
}

void JsonScanner::SkipSpace() {
  while (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r') ++at_;
}

bool JsonScanner::Fail(const char* what) {
  error_ = Error{.position = at_, .token_begin = token_begin_, .what = what};
  return false;
}

}  // namespace lockstep
