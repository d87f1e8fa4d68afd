"""FlashAttention-2 kernels as CUDA translation units of one kernel each."""
