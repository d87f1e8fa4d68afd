"""The CUDA compilers NVRTC and nvcc, and the cubins that they make."""
