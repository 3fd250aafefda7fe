lockstep_cuda_test(strip_gemm_cuda_test formats DEPS lockstep_kernels_formats_cuda)
foreach(test fp8_gemm_cuda_test fp8_schedules_cuda_test quantize_activations_cuda_test)
  lockstep_cuda_test(${test} formats/fp8_activations DEPS lockstep_kernels_fp8_activations_cuda)
endforeach()
# Needs no device.
lockstep_test(strip_tiling_test SOURCES formats/strip_tiling_test.cc DEPS lockstep_kernels_formats)
