#pragma once

#include <cstdint>

// CUDA's own type, named here so that an op's header needs no CUDA header.
struct CUstream_st;

namespace lockstep::kernels {

// Where a CUDA op runs. Most ops have one overload for Stream (CPU) and one for CudaStream. With a
// CudaStream all pointers are device pointers, and the call only enqueues: it never allocates,
// never synchronises, and can be captured in a graph.
struct CudaStream {
  CUstream_st* handle = nullptr;
  int num_multiprocessors = 0;
  // Launch kernels so that each may start while its predecessor drains (programmatic dependent
  // launch). Every kernel then waits for its predecessor before it touches what the predecessor
  // writes.
  bool overlap_launches = false;
};

}  // namespace lockstep::kernels
