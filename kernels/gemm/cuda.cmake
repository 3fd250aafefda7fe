# Our kernels for any number of rows, cuBLASLt for many; docs/numerics.md says what both must obey.
set(LOCKSTEP_CUDA_GEMM_FILES plan/cublaslt_gemm.cc plan/cuda_gemm.cc plan/packed_check.cc tile/gemm_launch.cc tile/gemm_kernels.cu
    tile/gemm_reference_cuda.cu tile/gemm_tiling.cc plan/gemm_trial.cc)
list(TRANSFORM LOCKSTEP_CUDA_GEMM_FILES PREPEND ${CMAKE_SOURCE_DIR}/kernels/gemm/)
lockstep_cuda_library(lockstep_kernels_gemm_cuda
  SOURCES ${LOCKSTEP_CUDA_GEMM_FILES} DEPS lockstep_kernels_activation_cuda CUDA::cublasLt)
# The planted fault: few rows split K, and split-K plans of cuBLASLt are candidates.
lockstep_cuda_library(lockstep_kernels_gemm_cuda_planted
  SOURCES ${LOCKSTEP_CUDA_GEMM_FILES} DEPS lockstep_kernels_activation_cuda CUDA::cublasLt)
target_compile_definitions(lockstep_kernels_gemm_cuda_planted PRIVATE LOCKSTEP_PLANT_SPLIT_K)
