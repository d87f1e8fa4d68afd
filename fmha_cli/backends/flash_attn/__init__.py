"""The FlashAttention backend: FlashAttention-2 for NVIDIA GPUs, compiled kernel by kernel from upstream's sources."""
