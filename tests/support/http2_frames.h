#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// HTTP/2 by hand, so that a test can also send what no library would.
namespace lockstep::testing {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};
inline constexpr uint8_t kEndStream = 0x1;
inline constexpr uint8_t kAck = 0x1;
inline constexpr uint8_t kEndHeaders = 0x4;
inline constexpr uint32_t kProtocolError = 1;
inline constexpr uint32_t kEnhanceYourCalm = 11;

inline std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

inline std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                         std::string_view payload = "") {
  std::string bytes = BigEndian(static_cast<uint32_t>(payload.size())).substr(1);
  bytes += static_cast<char>(type);
  bytes += static_cast<char>(flags);
  bytes += BigEndian(stream);
  bytes += payload;
  return bytes;
}

inline std::string Preface() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "");
}

// A message with gRPC's five bytes before it.
inline std::string RawMessage(std::string_view bytes) {
  return '\0' + BigEndian(static_cast<uint32_t>(bytes.size())) + std::string(bytes);
}

// A string of HPACK, as it is.
inline std::string HpackString(std::string_view text) {
  std::string bytes;
  size_t size = text.size();
  if (size < 127) {
    bytes += static_cast<char>(size);
  } else {
    bytes += '\x7f';
    for (size -= 127; size >= 128; size /= 128) bytes += static_cast<char>(size % 128 + 128);
    bytes += static_cast<char>(size);
  }
  return bytes.append(text);
}

using Fields = std::vector<std::pair<std::string, std::string>>;

// A header block without any compression.
inline std::string Hpack(const Fields& fields) {
  std::string bytes;
  for (const auto& [name, value] : fields) {
    bytes += '\0';
    bytes += HpackString(name) + HpackString(value);
  }
  return bytes;
}

inline Fields RequestFields(const std::string& path, const Fields& more = {}) {
  Fields fields = {{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "x"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

struct SeenFrame {
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;
  std::string payload;
};

// The whole frames at the front, which are removed.
inline std::vector<SeenFrame> TakeFrames(std::string& bytes) {
  std::vector<SeenFrame> frames;
  const auto byte = [&bytes](size_t i) { return uint32_t{static_cast<unsigned char>(bytes[i])}; };
  while (bytes.size() >= 9) {
    const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    if (bytes.size() < 9 + size) break;
    frames.push_back({.type = static_cast<uint8_t>(byte(3)),
                      .flags = static_cast<uint8_t>(byte(4)),
                      .stream = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8),
                      .payload = bytes.substr(9, size)});
    bytes.erase(0, 9 + size);
  }
  return frames;
}

// Of RST_STREAM, and at the end of what GOAWAY must have.
inline uint32_t ErrorCode(const SeenFrame& frame) {
  const size_t at = frame.type == kGoAway ? 4 : 0;
  uint32_t code = 0;
  for (size_t i = at; i < at + 4 && i < frame.payload.size(); ++i) {
    code = code << 8 | static_cast<unsigned char>(frame.payload[i]);
  }
  return code;
}

}  // namespace lockstep::testing
