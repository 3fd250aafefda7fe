#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>
#include <string_view>

#include "bench/kernels/time_in_graph.h"
#include "common/check.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/tile/gemm_launch.h"

namespace lockstep::kernels {

// Ends the program, naming `what` and the first output that differs, unless both arrays
// have the same bits. `difference`: 8 bytes of scratch.
inline void ExpectSameBits(const CudaStream& stream, const BitComparison& comparison,
                           const DeviceBuffer& difference, std::string_view what) {
  Expect(cudaMemsetAsync(difference.data(), 0xFF, sizeof(uint64_t), stream.handle));
  Expect(FindFirstDifference(stream, comparison, difference.data<unsigned long long>()));
  uint64_t at = 0;
  Expect(
      cudaMemcpyAsync(&at, difference.data(), sizeof(at), cudaMemcpyDeviceToHost, stream.handle));
  Expect(cudaStreamSynchronize(stream.handle));
  LOCKSTEP_CHECK(at == std::numeric_limits<uint64_t>::max(), "{}: output {} differs", what, at);
}

}  // namespace lockstep::kernels
