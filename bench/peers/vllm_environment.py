"""What vLLM's environment is in every comparison."""

VLLM_ENVIRONMENT = {
    # These two would compile kernels when it starts.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_DEEP_GEMM": "0",
    # Reductions through symmetric memory would use NVLink multicast, which a shared host may forbid.
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
