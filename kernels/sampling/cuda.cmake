lockstep_cuda_library(lockstep_kernels_sampling_cuda
  SOURCES
    ${CMAKE_SOURCE_DIR}/kernels/sampling/cuda/describe_cuda.cu
    ${CMAKE_SOURCE_DIR}/kernels/sampling/finish_step_cuda.cu
    ${CMAKE_SOURCE_DIR}/kernels/sampling/cuda/sample_cuda.cu
  DEPS lockstep_kernels_sampling)
# fmt 9 takes nvcc for a compiler without constexpr, and then its checked format strings fail.
target_compile_definitions(lockstep_kernels_sampling_cuda PRIVATE FMT_USE_CONSTEXPR=1)
