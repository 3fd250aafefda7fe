#include "worker/memory/page_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/status.h"

namespace lockstep::worker {

absl::StatusOr<PageBuffer> PageBuffer::Allocate(size_t size_bytes) {
  if (size_bytes == 0) return PageBuffer();
  void* address = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return ResourceExhausted("cannot map {} bytes of memory: {}", size_bytes, std::strerror(errno));
  }
  // Only a hint: without huge pages everything works, a little slower.
  madvise(address, size_bytes, MADV_HUGEPAGE);
  return PageBuffer({static_cast<std::byte*>(address), size_bytes});
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

PageBuffer::~PageBuffer() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace lockstep::worker
