lockstep_test(paged_attention_cuda_test
  SOURCES
    attention/paged_attention_cuda_problem.cc
    attention/paged_attention_cuda_test.cc
    attention/paged_decode_cuda_test.cc
  DEPS lockstep_kernels_attention_cuda lockstep_kernels_device lockstep_test_support
  LABELS gpu)
