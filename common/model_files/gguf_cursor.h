#pragma once

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"

// Internal to the reader of GGUF files.
namespace lockstep {

// A place in the file that moves forward. Every read is checked against the end of the file, and
// errors carry the file's name and the byte offset. Does not own the bytes or the name.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  template <typename... Args>
  absl::Status Error(size_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("{}: offset {}: {}", name_, offset,
                           fmt::format(format, std::forward<Args>(args)...));
  }

  // A number as it lies in the file; `what` is the subject of the error.
  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    if (remaining() < sizeof(T)) return EndOfFile(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  absl::StatusOr<bool> ReadBool(std::string_view what);
  // The number of following items of at least `min_bytes` each.
  absl::StatusOr<uint64_t> ReadCount(std::string_view what, uint64_t min_bytes, uint64_t max_count);
  // Views into the file.
  absl::StatusOr<std::string_view> ReadString(std::string_view what, uint64_t max_bytes);
  absl::StatusOr<std::span<const std::byte>> ReadBytes(std::string_view what, uint64_t num_bytes);

 private:
  absl::Status EndOfFile(std::string_view what, uint64_t num_bytes) const;

  const std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t offset_ = 0;
};

}  // namespace lockstep
