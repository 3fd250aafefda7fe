#include "router/text/tokenizer/byte_alphabet.h"

#include <array>
#include <optional>

#include "router/text/unicode/utf8.h"

namespace lockstep::router {
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

}  // namespace

std::string ByteToAlphabet(uint8_t byte) {
  if (StandsForItself(byte)) return EncodeUtf8(byte);
  size_t index = 0;
  while (kSubstituted[index] != byte) ++index;
  return EncodeUtf8(static_cast<char32_t>(kFirstSubstitute + index));
}

bool AlphabetToBytes(std::string_view text, std::string& bytes) {
  while (!text.empty()) {
    const Utf8Unit unit = NextUtf8Unit(text);
    if (unit.kind != Utf8Kind::kValid) return false;
    const std::optional<uint8_t> byte = ByteOf(DecodeUtf8(text, 0).code_point);
    if (!byte) return false;
    bytes.push_back(static_cast<char>(*byte));
    text.remove_prefix(unit.length);
  }
  return true;
}

}  // namespace lockstep::router
