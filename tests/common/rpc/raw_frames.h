#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::testing {

// A frame of HTTP/2 made by hand.
inline std::string RawFrame(uint8_t type, uint8_t flags, uint32_t stream,
                            std::string_view payload = "") {
  std::string frame;
  for (int shift = 16; shift >= 0; shift -= 8) {
    frame += static_cast<char>(payload.size() >> shift);
  }
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(stream >> shift);
  return frame.append(payload);
}

// A message with gRPC's five bytes before it.
inline std::string RawMessage(std::string_view bytes) {
  std::string framed(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) framed += static_cast<char>(bytes.size() >> shift);
  return framed.append(bytes);
}

}  // namespace lockstep::testing
