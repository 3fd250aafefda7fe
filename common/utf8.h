#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

// The size in bytes of the well-formed, non-ASCII character (RFC 3629) at `at`; 0 if there is none.
inline size_t CharacterBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const auto follows = [&](size_t i, unsigned least = 0x80, unsigned most = 0xbf) {
    return byte(i) >= least && byte(i) <= most;
  };
  const unsigned first = byte(0);
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const unsigned least = first == 0xe0 ? 0xa0 : 0x80;  // below it, two bytes suffice
    const unsigned most = first == 0xed ? 0x9f : 0xbf;   // no surrogates
    return follows(1, least, most) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned least = first == 0xf0 ? 0x90 : 0x80;
    const unsigned most = first == 0xf4 ? 0x8f : 0xbf;  // up to U+10FFFF
    return follows(1, least, most) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace lockstep
