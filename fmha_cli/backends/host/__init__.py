"""The common part of backends whose kernels belong to a library on the CPU."""
