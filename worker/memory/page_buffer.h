#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <span>

namespace lockstep::worker {

// Anonymous zeroed memory in whole pages, huge ones if the system grants them. Pages are backed
// when first touched. Owns the mapping. A move does not change the address of the bytes.
class PageBuffer {
 public:
  // RESOURCE_EXHAUSTED names the size.
  static absl::StatusOr<PageBuffer> Allocate(size_t size_bytes);

  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit PageBuffer(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace lockstep::worker
