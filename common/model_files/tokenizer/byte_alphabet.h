#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// The printable alphabet of byte-level vocabularies (from GPT-2's encoder.py). The 188 printable
// Latin-1 characters stand for themselves. The other 68 bytes, in ascending order, are spelled
// U+0100, U+0101, ...
namespace lockstep {

// The UTF-8 spelling of one byte: 0x20 -> "\u0120".
std::string ByteToAlphabet(uint8_t byte);

// Appends the bytes that `text` spells. False, with `bytes` unspecified, if `text` has a character
// outside the alphabet.
bool AlphabetToBytes(std::string_view text, std::string& bytes);

}  // namespace lockstep
