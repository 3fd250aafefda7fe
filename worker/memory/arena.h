#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>

#include "common/check.h"
#include "worker/memory/page_buffer.h"

namespace lockstep::worker {

// Typed pieces of one stretch of memory, each aligned to 256 bytes. The same code runs twice.
// Before the commit, Take only adds up sizes and returns null. After the commit, Take returns
// memory.
class Arena {
 public:
  template <typename T>
  T* Take(int64_t count) {
    const size_t begin = used_bytes_;
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    used_bytes_ += (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    if (memory_ == nullptr) return nullptr;
    LOCKSTEP_CHECK(used_bytes_ <= size_bytes_, "an arena measured at {} bytes was asked for {}",
                   size_bytes_, used_bytes_);
    return reinterpret_cast<T*>(memory_ + begin);
  }

  // Bytes taken so far, since the commit if there was one.
  size_t used_bytes() const { return used_bytes_; }

  // Maps zeroed host memory. RESOURCE_EXHAUSTED names the size.
  absl::Status Commit() {
    auto buffer = PageBuffer::Allocate(used_bytes_);
    if (!buffer.ok()) return buffer.status();
    buffer_ = *std::move(buffer);
    CommitTo(buffer_.bytes().data());
    return absl::OkStatus();
  }
  // Uses `memory` from now on. It must have used_bytes() bytes and outlive the pieces. It may be
  // device memory.
  void CommitTo(std::byte* memory) {
    memory_ = memory;
    size_bytes_ = used_bytes_;
    used_bytes_ = 0;
  }

 private:
  static constexpr size_t kAlignmentBytes = 256;

  PageBuffer buffer_;
  std::byte* memory_ = nullptr;
  size_t size_bytes_ = 0;
  size_t used_bytes_ = 0;
};

}  // namespace lockstep::worker
