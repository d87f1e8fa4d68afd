"""Memory-efficient attention (CUTLASS FMHA of xformers and PyTorch): kernel to source text, parameter blocks."""
