#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Little-endian bytes of a file under construction, also of a malformed one.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& Put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  ByteWriter& U8(uint8_t value) { return Put(value); }
  ByteWriter& U32(uint32_t value) { return Put(value); }
  ByteWriter& U64(uint64_t value) { return Put(value); }
  ByteWriter& Raw(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  ByteWriter& PadTo(size_t alignment) {
    bytes_.append((alignment - bytes_.size() % alignment) % alignment, '\0');
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string Floats(std::initializer_list<float> values) {
  ByteWriter writer;
  for (const float value : values) writer.Put(value);
  return writer.bytes();
}

}  // namespace lockstep
