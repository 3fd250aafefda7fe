lockstep_cuda_library(lockstep_kernels_attention_cuda
  SOURCES ${CMAKE_SOURCE_DIR}/kernels/attention/paged_attention_cuda.cc
          ${CMAKE_SOURCE_DIR}/kernels/attention/decode/decode_plan_cuda.cu
          ${CMAKE_SOURCE_DIR}/kernels/attention/decode/paged_decode_cuda.cu
          ${CMAKE_SOURCE_DIR}/kernels/attention/prefill/paged_prefill_cuda.cu
          ${CMAKE_SOURCE_DIR}/kernels/attention/prefill/paged_prefill_warpgroup_cuda.cu
  DEPS lockstep_kernels_attention)
