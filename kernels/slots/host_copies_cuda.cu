#include <algorithm>

#include "common/check.h"
#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/slots/host_copies.h"

namespace lockstep::kernels {
namespace {

using Segment = HostCopies::Segment;

constexpr int kThreads = 128;
constexpr int kWordsPerThread = HostCopies::kMaxSegmentWords / kThreads;
constexpr size_t kMaxSegments = 128;  // of one launch: its parameters may take 4 KiB

struct Segments {
  Segment of_block[kMaxSegments];
};
static_assert(sizeof(Segments) <= 4096);

// Host memory is slow to read, and no kernel writes it. So it is read while the previous kernel
// still runs. A launch sees all that the host wrote before it. As a precaution, __ldcv also keeps
// caches from answering with what an earlier step read there.
__global__ void __launch_bounds__(kThreads)
    HostCopiesKernel(const __grid_constant__ Segments segments) {
  ptx::AllowSuccessor();
  const Segment& segment = segments.of_block[blockIdx.x];
  uint32_t words[kWordsPerThread] = {};
#pragma unroll
  for (int i = 0; i < kWordsPerThread; ++i) {
    const uint32_t at = threadIdx.x + i * kThreads;
    if (at < segment.num_words) words[i] = __ldcv(segment.from + at);
  }
  ptx::WaitForPredecessor();
#pragma unroll
  for (int i = 0; i < kWordsPerThread; ++i) {
    const uint32_t at = threadIdx.x + i * kThreads;
    if (at < segment.num_words) segment.to[at] = words[i];
  }
}

}  // namespace

void HostCopies::Add(void* to, const void* from, size_t num_bytes) {
  LOCKSTEP_CHECK(num_bytes % sizeof(uint32_t) == 0 && IsAligned(to, sizeof(uint32_t)) &&
                     IsAligned(from, sizeof(uint32_t)),
                 "a copy of {} bytes: sizes and addresses must be multiples of 4", num_bytes);
  const size_t num_words = num_bytes / sizeof(uint32_t);
  for (size_t begin = 0; begin < num_words; begin += kMaxSegmentWords) {
    segments_.push_back(
        {.from = static_cast<const uint32_t*>(from) + begin,
         .to = static_cast<uint32_t*>(to) + begin,
         .num_words = static_cast<uint32_t>(std::min(kMaxSegmentWords, num_words - begin))});
  }
}

absl::Status HostCopies::Enqueue(const CudaStream& stream) {
  for (size_t begin = 0; begin < segments_.size(); begin += kMaxSegments) {
    const size_t count = std::min(kMaxSegments, segments_.size() - begin);
    Segments segments = {};
    std::copy_n(segments_.data() + begin, count, segments.of_block);
    LOCKSTEP_RETURN_IF_ERROR(Launch(stream, "HostCopies",
                                    {.grid = dim3(static_cast<unsigned>(count)), .block = kThreads},
                                    HostCopiesKernel, segments));
  }
  segments_.clear();
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
