"""Tuning without a device: which kernels to sample how often, whether a winner still counts, and between which seqlens."""
