"""Upstream's own host code of the memory-efficient kernels, run without a GPU: both host functions and all kernel types.

``attention_forward_generic.cu`` and ``attention_backward_generic.cu`` of xformers choose a kernel, pack its parameters
and launch it. They are compiled as plain C++ with the launch replaced by a record of it. The kernel types, their
checks, extents and ``advance_to_block`` are upstream's: from the sources of xformers, or from the headers in PyTorch's
wheel. PyTorch and the CUDA runtime are stand-ins, as in ``tests/support/referees/upstream_host``.
"""
