lockstep_test(gemm_cuda_test
  SOURCES gemm/gemm_cuda_test.cc gemm/gemm_fused_cuda_test.cc
  DEPS lockstep_kernels_gemm_cuda lockstep_kernels_activation_cuda lockstep_kernels_device
       lockstep_test_support
  LABELS gpu)
lockstep_cuda_test(cuda_gemm_test gemm/plan DEPS lockstep_kernels_gemm_cuda)
lockstep_cuda_test(cuda_gemm_planted_test gemm/plan DEPS lockstep_kernels_gemm_cuda_planted)
# Needs no device.
lockstep_test(gemm_tiling_test SOURCES gemm/tile/gemm_tiling_test.cc DEPS lockstep_kernels_gemm_cuda)
