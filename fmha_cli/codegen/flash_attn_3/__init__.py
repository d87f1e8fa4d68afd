"""FlashAttention-3 kernels: facts, texts and argument blocks."""
