#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::kernels {

// Two codes a byte, the low nibble first.
inline std::vector<uint8_t> UnpackNibbles(std::span<const std::byte> bytes) {
  std::vector<uint8_t> codes;
  codes.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    codes.push_back(static_cast<uint8_t>(byte) & 15u);
    codes.push_back(static_cast<uint8_t>(byte) >> 4);
  }
  return codes;
}

inline std::vector<uint8_t> PackNibbles(std::span<const uint8_t> codes) {
  std::vector<uint8_t> bytes(codes.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4));
  }
  return bytes;
}

}  // namespace lockstep::kernels
