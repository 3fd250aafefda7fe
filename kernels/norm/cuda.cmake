lockstep_cuda_library(lockstep_kernels_norm_cuda
  SOURCES
    ${CMAKE_SOURCE_DIR}/kernels/norm/layer_norm_cuda.cu
    ${CMAKE_SOURCE_DIR}/kernels/norm/rms_norm_cuda.cu
  DEPS lockstep_kernels_core)
# fmt 9 takes nvcc for a compiler without constexpr, and then its checked format strings fail.
target_compile_definitions(lockstep_kernels_norm_cuda PRIVATE FMT_USE_CONSTEXPR=1)
