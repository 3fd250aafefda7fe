#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>

#include "common/check.h"
#include "worker/memory/page_buffer.h"

namespace lockstep::worker {

// Typed pieces of one PageBuffer, each on its own cache line, zeroed. Used in two passes over the
// same code: before Commit, Take only adds up sizes and returns null; after it, Take hands out
// memory.
class Arena {
 public:
  template <typename T>
  T* Take(int64_t count) {
    const size_t begin = used_bytes_;
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    used_bytes_ += (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    if (!committed_) return nullptr;
    LOCKSTEP_CHECK(used_bytes_ <= buffer_.bytes().size(),
                   "an arena measured at {} bytes was asked for {}", buffer_.bytes().size(),
                   used_bytes_);
    return reinterpret_cast<T*>(buffer_.bytes().data() + begin);
  }

  // Maps what was added up. RESOURCE_EXHAUSTED naming the size.
  absl::Status Commit() {
    auto buffer = PageBuffer::Allocate(used_bytes_);
    if (!buffer.ok()) return buffer.status();
    buffer_ = *std::move(buffer);
    used_bytes_ = 0;
    committed_ = true;
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kAlignmentBytes = 64;

  PageBuffer buffer_;
  size_t used_bytes_ = 0;
  bool committed_ = false;
};

}  // namespace lockstep::worker
