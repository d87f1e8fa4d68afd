"""FlashAttention-2 kernels as CUDA translation units, one kernel each."""
