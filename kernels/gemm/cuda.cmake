# Our kernels for any number of rows, cuBLASLt for many; docs/numerics.md says what both must obey.
set(LOCKSTEP_CUDA_GEMM_FILES cublaslt_gemm.cc cuda_gemm.cc gemm_cuda.cc gemm_kernels.cu
    gemm_reference_cuda.cu gemm_tiling.cc gemm_trial.cc)
list(TRANSFORM LOCKSTEP_CUDA_GEMM_FILES PREPEND ${CMAKE_SOURCE_DIR}/kernels/gemm/)
lockstep_cuda_library(lockstep_kernels_gemm_cuda
  SOURCES ${LOCKSTEP_CUDA_GEMM_FILES} DEPS lockstep_kernels_activation_cuda CUDA::cublasLt)
# The planted fault: few rows split K, and split-K plans of cuBLASLt are candidates.
lockstep_cuda_library(lockstep_kernels_gemm_cuda_planted
  SOURCES ${LOCKSTEP_CUDA_GEMM_FILES} DEPS lockstep_kernels_activation_cuda CUDA::cublasLt)
target_compile_definitions(lockstep_kernels_gemm_cuda_planted PRIVATE LOCKSTEP_PLANT_SPLIT_K)
