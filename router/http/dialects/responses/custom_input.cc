#include "router/http/dialects/responses/custom_input.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

constexpr char32_t kReplacementCharacter = 0xFFFD;
constexpr size_t kEscapeBytes = 6;  // \uXXXX

bool IsHighSurrogate(uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool IsLowSurrogate(uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

// The value of four hexadecimal digits.
std::optional<uint32_t> HexUnit(std::string_view digits) {
  uint32_t unit = 0;
  for (const char c : digits) {
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    unit = unit * 16 + digit;
  }
  return unit;
}

// The character that `\c` stands for. Unknown escapes stand for themselves.
char UnescapedChar(char c) {
  constexpr std::string_view kLetters = "bfnrt";
  constexpr std::string_view kCharacters = "\b\f\n\r\t";
  const size_t place = kLetters.find(c);
  return place == std::string_view::npos ? c : kCharacters[place];
}

}  // namespace

std::string CustomInput::Push(std::string_view arguments) {
  if (state_ == State::kDone) return {};
  if (state_ == State::kAsIs) return std::string(arguments);
  waiting_ += arguments;
  if (state_ == State::kBegin) TakeBegin();
  if (state_ == State::kAsIs) return std::exchange(waiting_, {});
  return state_ == State::kText ? TakeText() : std::string();
}

std::string CustomInput::Finish() {
  if (state_ == State::kBegin) return std::exchange(waiting_, {});
  std::string out;
  FlushUnit(out);
  return out;
}

void CustomInput::TakeBegin() {
  constexpr std::array<std::string_view, 4> kTokens = {"{", "\"input\"", ":", "\""};
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view rest = waiting_;
  for (const std::string_view token : kTokens) {
    const size_t begin = rest.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return;
    rest.remove_prefix(begin);
    if (rest.size() < token.size() && token.starts_with(rest)) return;
    if (!rest.starts_with(token)) {
      state_ = State::kAsIs;
      return;
    }
    rest.remove_prefix(token.size());
  }
  waiting_.erase(0, waiting_.size() - rest.size());
  state_ = State::kText;
}

std::string CustomInput::TakeText() {
  std::string out;
  size_t at = 0;
  while (at < waiting_.size()) {
    const char c = waiting_[at];
    if (c != '\\') {
      FlushUnit(out);
      if (c == '"') {
        state_ = State::kDone;
        waiting_.clear();
        return out;
      }
      out += c;
      ++at;
      continue;
    }
    if (at + 1 == waiting_.size()) break;
    if (waiting_[at + 1] != 'u') {
      FlushUnit(out);
      out += UnescapedChar(waiting_[at + 1]);
      at += 2;
      continue;
    }
    if (at + kEscapeBytes > waiting_.size()) break;
    const std::string_view digits = std::string_view(waiting_).substr(at + 2, 4);
    AppendUnit(HexUnit(digits).value_or(kReplacementCharacter), out);
    at += kEscapeBytes;
  }
  waiting_.erase(0, at);
  return out;
}

void CustomInput::FlushUnit(std::string& out) {
  if (std::exchange(high_surrogate_, 0) != 0) out += EncodeUtf8(kReplacementCharacter);
}

void CustomInput::AppendUnit(uint32_t unit, std::string& out) {
  const uint32_t high = std::exchange(high_surrogate_, 0);
  if (high != 0 && IsLowSurrogate(unit)) {
    out += EncodeUtf8(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00));
    return;
  }
  if (high != 0) out += EncodeUtf8(kReplacementCharacter);
  if (IsHighSurrogate(unit)) {
    high_surrogate_ = unit;
  } else {
    out += EncodeUtf8(IsLowSurrogate(unit) ? kReplacementCharacter : static_cast<char32_t>(unit));
  }
}

}  // namespace lockstep::router
