"""CUDA compilers and what they make: NVRTC, nvcc, cubins."""
