lockstep_cuda_test(strip_gemm_cuda_test formats DEPS lockstep_kernels_formats_cuda)
# Needs no device.
lockstep_test(strip_tiling_test SOURCES formats/strip_tiling_test.cc DEPS lockstep_kernels_formats)
