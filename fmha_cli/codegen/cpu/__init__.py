"""C++ source of the CPU kernels."""
