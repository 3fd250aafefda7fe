lockstep_cuda_library(lockstep_kernels_embedding_cuda
  SOURCES ${CMAKE_SOURCE_DIR}/kernels/embedding/gather_rows_cuda.cu
  DEPS lockstep_kernels_core)
# fmt 9 takes nvcc for a compiler without constexpr, and then its checked format strings fail.
target_compile_definitions(lockstep_kernels_embedding_cuda PRIVATE FMT_USE_CONSTEXPR=1)
