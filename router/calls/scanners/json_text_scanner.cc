#include "router/calls/scanners/json_text_scanner.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kReplacement = "\\ufffd";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

ScanState JsonTextScanner::Push(char c, std::string& out) {
  switch (at_) {
    case At::kString:
      return PushString(c, out);
    case At::kEscape:
      return PushEscape(c, out);
    case At::kHex:
      return PushHex(c, out);
    case At::kNumber:
      return PushNumber(c, out);
    case At::kWord:
      return PushWord(c, out);
    case At::kEnd:
      return ScanState::kEndedBefore;
    default:
      return PushStructure(c, out);
  }
}

bool JsonTextScanner::IsWhole() const {
  return at_ == At::kEnd || (at_ == At::kNumber && open_.empty() && NumberIsWhole());
}

ScanState JsonTextScanner::PushStructure(char c, std::string& out) {
  if (IsJsonSpace(c)) {
    if (!open_.empty()) out.push_back(c);
    return ScanState::kMore;
  }
  const auto next = [&](At at) {
    out.push_back(c);
    at_ = at;
    return ScanState::kMore;
  };
  const auto close = [&] {
    out.push_back(c);
    open_.pop_back();
    return EndValue();
  };
  switch (at_) {
    case At::kFirstElement:
      if (c == ']') return close();
      return BeginValue(c, out);
    case At::kFirstKey:
      if (c == '}') return close();
      [[fallthrough]];
    case At::kKey:
      if (c != '"') return ScanState::kBad;
      string_is_key_ = true;
      return next(At::kString);
    case At::kColon:
      return c == ':' ? next(At::kValue) : ScanState::kBad;
    case At::kAfterValue:
      if (c == ',') return next(open_.back() == '{' ? At::kKey : At::kValue);
      if (c == (open_.back() == '{' ? '}' : ']')) return close();
      return ScanState::kBad;
    default:
      return BeginValue(c, out);
  }
}

ScanState JsonTextScanner::BeginValue(char c, std::string& out) {
  out.push_back(c);
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxCallDepth) return ScanState::kBad;
    open_.push_back(c);
    at_ = c == '{' ? At::kFirstKey : At::kFirstElement;
  } else if (c == '"') {
    string_is_key_ = false;
    at_ = At::kString;
  } else if (c == '-' || IsDigit(c)) {
    number_ = c == '-' ? Number::kMinus : c == '0' ? Number::kZero : Number::kInteger;
    num_number_bytes_ = 1;
    at_ = At::kNumber;
  } else if (c == 't' || c == 'f' || c == 'n') {
    word_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    at_ = At::kWord;
  } else {
    return ScanState::kBad;
  }
  return ScanState::kMore;
}

ScanState JsonTextScanner::EndValue() {
  if (open_.empty()) {
    at_ = At::kEnd;
    return ScanState::kDone;
  }
  at_ = At::kAfterValue;
  return ScanState::kMore;
}

ScanState JsonTextScanner::PushString(char c, std::string& out) {
  if (c == '\\') {
    escape_ = c;
    at_ = At::kEscape;
    return ScanState::kMore;
  }
  EndHighSurrogate(out);
  if (c != '"') {
    if (static_cast<unsigned char>(c) < 0x20) {
      AppendJsonEscaped({&c, 1}, out);
    } else {
      out.push_back(c);
    }
    return ScanState::kMore;
  }
  out.push_back(c);
  if (!string_is_key_) return EndValue();
  at_ = At::kColon;
  return ScanState::kMore;
}

ScanState JsonTextScanner::PushEscape(char c, std::string& out) {
  escape_.push_back(c);
  if (c == 'u') {
    at_ = At::kHex;
    return ScanState::kMore;
  }
  if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) return ScanState::kBad;
  EndHighSurrogate(out);
  out += escape_;
  at_ = At::kString;
  return ScanState::kMore;
}

ScanState JsonTextScanner::PushHex(char c, std::string& out) {
  if (!IsHexDigit(c)) return ScanState::kBad;
  escape_.push_back(c);
  if (escape_.size() < 6) return ScanState::kMore;
  at_ = At::kString;
  const auto unit = static_cast<uint32_t>(std::stoul(escape_.substr(2), nullptr, 16));
  if (unit >= 0xDC00 && unit < 0xE000 && !high_surrogate_.empty()) {
    out += high_surrogate_ + escape_;
    high_surrogate_.clear();
    return ScanState::kMore;
  }
  EndHighSurrogate(out);
  if (unit >= 0xD800 && unit < 0xDC00) {
    high_surrogate_ = escape_;
  } else {
    out += unit >= 0xDC00 && unit < 0xE000 ? kReplacement : std::string_view(escape_);
  }
  return ScanState::kMore;
}

void JsonTextScanner::EndHighSurrogate(std::string& out) {
  if (high_surrogate_.empty()) return;
  high_surrogate_.clear();
  out += kReplacement;
}

ScanState JsonTextScanner::PushNumber(char c, std::string& out) {
  const bool is_digit = IsDigit(c);
  std::optional<Number> next;
  switch (number_) {
    case Number::kMinus:
      if (is_digit) next = c == '0' ? Number::kZero : Number::kInteger;
      break;
    case Number::kZero:
    case Number::kInteger:
      if (is_digit && number_ == Number::kInteger) next = Number::kInteger;
      if (c == '.') next = Number::kDot;
      if (c == 'e' || c == 'E') next = Number::kE;
      break;
    case Number::kDot:
    case Number::kFraction:
      if (is_digit) next = Number::kFraction;
      if (number_ == Number::kFraction && (c == 'e' || c == 'E')) next = Number::kE;
      break;
    case Number::kE:
      if (c == '+' || c == '-') next = Number::kSign;
      [[fallthrough]];
    case Number::kSign:
    case Number::kExponent:
      if (is_digit) next = Number::kExponent;
      break;
  }
  if (next) {
    if (++num_number_bytes_ > kMaxNumberBytes) return ScanState::kBad;
    number_ = *next;
    out.push_back(c);
    return ScanState::kMore;
  }
  if (!NumberIsWhole()) return ScanState::kBad;
  if (EndValue() == ScanState::kDone) return ScanState::kEndedBefore;
  return PushStructure(c, out);
}

bool JsonTextScanner::NumberIsWhole() const {
  return number_ == Number::kZero || number_ == Number::kInteger || number_ == Number::kFraction ||
         number_ == Number::kExponent;
}

ScanState JsonTextScanner::PushWord(char c, std::string& out) {
  if (c != word_[0]) return ScanState::kBad;
  out.push_back(c);
  word_.remove_prefix(1);
  return word_.empty() ? EndValue() : ScanState::kMore;
}

void AppendJsonEscaped(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) {
          out.push_back(c);
        } else {
          out += "\\u00";
          out.push_back(kHex[c >> 4]);
          out.push_back(kHex[c & 15]);
        }
    }
  }
}

void AppendJsonQuoted(std::string_view text, std::string& out) {
  out.push_back('"');
  AppendJsonEscaped(text, out);
  out.push_back('"');
}

std::string DecodeJsonString(std::string_view json) {
  const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : "";
}

bool ScanJson(std::string_view text, std::string& out) {
  JsonTextScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const ScanState state = scanner.Push(text[i], out);
    if (state == ScanState::kBad) return false;
    // Only white space may follow.
    if (state == ScanState::kEndedBefore && !IsJsonSpace(text[i])) return false;
  }
  return scanner.IsWhole();
}

bool AppendScalar(std::string_view word, std::string& out) {
  if (word == "True") word = "true";
  if (word == "False") word = "false";
  if (word == "None") word = "null";
  std::string json;
  if (!ScanJson(word, json)) return false;
  out += json;
  return true;
}

}  // namespace lockstep::router
