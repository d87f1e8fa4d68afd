"""Compilers for AMD GPUs: finding one, giving it the ROCm that it lacks, and compiling HIP with it."""
