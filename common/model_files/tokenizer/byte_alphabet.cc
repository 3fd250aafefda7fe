#include "common/model_files/tokenizer/byte_alphabet.h"

#include <array>
#include <optional>

#include "common/utf8.h"

namespace lockstep {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr size_t kNumSubstitutes = 68;

constexpr bool StandsForItself(char32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<uint8_t, kNumSubstitutes> MakeSubstituted() {
  std::array<uint8_t, kNumSubstitutes> bytes{};
  size_t count = 0;
  for (char32_t byte = 0; byte < 256; ++byte) {
    if (!StandsForItself(byte)) bytes[count++] = static_cast<uint8_t>(byte);
  }
  return bytes;
}

constexpr std::array<uint8_t, kNumSubstitutes> kSubstituted = MakeSubstituted();

std::optional<uint8_t> ByteOf(char32_t code_point) {
  if (code_point < 256) {
    if (!StandsForItself(code_point)) return std::nullopt;
    return static_cast<uint8_t>(code_point);
  }
  const size_t index = code_point - kFirstSubstitute;
  if (index >= kNumSubstitutes) return std::nullopt;
  return kSubstituted[index];
}

// UTF-8 of a character of the alphabet: all are below U+0800.
std::string Spell(char32_t code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

}  // namespace

std::string ByteToAlphabet(uint8_t byte) {
  if (StandsForItself(byte)) return Spell(byte);
  size_t index = 0;
  while (kSubstituted[index] != byte) ++index;
  return Spell(static_cast<char32_t>(kFirstSubstitute + index));
}

bool AlphabetToBytes(std::string_view text, std::string& bytes) {
  while (!text.empty()) {
    auto code_point = static_cast<char32_t>(static_cast<uint8_t>(text[0]));
    size_t length = 1;
    if (code_point >= 0x80) {
      length = CharacterBytes(text, 0);
      if (length != 2) return false;  // invalid, or outside the alphabet
      code_point = (code_point & 0x1F) << 6 | (static_cast<uint8_t>(text[1]) & 0x3F);
    }
    const std::optional<uint8_t> byte = ByteOf(code_point);
    if (!byte) return false;
    bytes.push_back(static_cast<char>(*byte));
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace lockstep
