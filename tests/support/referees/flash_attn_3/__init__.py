"""Upstream's host code of FlashAttention-3, compiled by g++ without CUDA, PyTorch or a device, and asked for its choices."""
