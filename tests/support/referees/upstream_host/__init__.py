"""Upstream's own host code, run without a GPU: ``flash_api.cpp`` and the launch templates, compiled unmodified.

PyTorch, the CUDA runtime and the device functions of the kernels are stand-ins (``include/``); CUTLASS and
``kernel_traits.h`` are upstream's. A call returns what upstream would launch: template-ids, grids, blocks, dynamic
shared memory and the raw parameter structs. If upstream refuses, it returns the message.
"""
