lockstep_cuda_test(rotary_append_cuda_test rope DEPS lockstep_kernels_rope_cuda lockstep_kernels_rope
                   lockstep_kernels_norm_cuda)
