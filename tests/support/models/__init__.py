"""Numpy models of kernels, where executing the kernel itself costs too much or proves less.

FlashAttention-2's and the memory-efficient kernels are C++ that NVRTC compiles for minutes each, so models stand for them: in seconds they
prove every field, stride and dropout bit of the packed parameters, of all families. cuDNN's kernels have none: the emulator executes
their PTX. ``kernel_model`` computes attention as any kernel would, so that a fault can be planted at every step.
"""
