"""What the translation units of CUDA kernels have in common: headers in place of the standard library, exported tables."""
