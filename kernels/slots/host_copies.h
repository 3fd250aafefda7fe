#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device/cuda_stream.h"

namespace lockstep::kernels {

// Copies small arrays from pinned host memory to device memory with one kernel. The copy engine
// takes a command for each array, and a kernel that follows waits for it: a step that starts
// several sequences would wait many times.
class HostCopies {
 public:
  // `from` is pinned host memory. It is complete now, and does not change before the copy has
  // ended. Both addresses and num_bytes are multiples of 4. Ranges of device memory do not overlap.
  void Add(void* to, const void* from, size_t num_bytes);

  // Enqueues what was added, and forgets it. Nothing added: nothing happens.
  absl::Status Enqueue(const CudaStream& stream);

  // What one thread block copies.
  struct Segment {
    const uint32_t* from;
    uint32_t* to;
    uint32_t num_words;
  };
  static constexpr size_t kMaxSegmentWords = 1024;

 private:
  std::vector<Segment> segments_;
};

}  // namespace lockstep::kernels
