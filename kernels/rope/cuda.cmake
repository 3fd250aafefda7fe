lockstep_cuda_library(lockstep_kernels_rope_cuda
  SOURCES ${CMAKE_SOURCE_DIR}/kernels/rope/rotary_append_cuda.cc
          ${CMAKE_SOURCE_DIR}/kernels/rope/rotary_append_cuda.cu)
