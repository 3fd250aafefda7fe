#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// UTF-8 as Unicode 15, section 3.9 defines it: no overlong forms, no surrogates, at most U+10FFFF.
namespace lockstep::router {

enum class Utf8Kind : uint8_t {
  kValid,       // a whole character
  kInvalid,     // a maximal subpart that is no character: one U+FFFD
  kIncomplete,  // the text may end inside a character
};

struct Utf8Unit {
  Utf8Kind kind;
  size_t length;  // bytes, >= 1
};

// The first unit of a text that is not empty.
Utf8Unit NextUtf8Unit(std::string_view text);

// Offset of the first byte that is not part of a whole character.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

struct DecodedChar {
  char32_t code_point;
  size_t length;  // bytes
};
// The character at `offset` of valid UTF-8.
DecodedChar DecodeUtf8(std::string_view text, size_t offset);
// The offset of the character that ends at `end` > 0 of valid UTF-8.
size_t PreviousCharOffset(std::string_view text, size_t end);

std::string EncodeUtf8(char32_t code_point);

// Appends `bytes` to `out`, with U+FFFD for invalid parts. `pending` keeps the bytes of an
// unfinished character (at most 3) until the next call.
void AppendLossyUtf8(std::string_view bytes, std::string& pending, std::string& out);
// Ends the text: an unfinished character becomes one U+FFFD.
void FlushLossyUtf8(std::string& pending, std::string& out);

}  // namespace lockstep::router
