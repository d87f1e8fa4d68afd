"""CUDA's errors by number: a call that fails, or a context that is dead for good."""

from __future__ import annotations

from fmha_cli.domain.errors import DeviceLost, KernelFailure

OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""

NO_DEVICE = 100
STUB_LIBRARY = 34
"""CUDA_ERROR_STUB_LIBRARY: the loaded libcuda is a toolkit's stub for linking on machines without a driver."""

LOST = (214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 911)
"""ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, CONTAINED, ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED, ASSERT,
HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE, INVALID_PC, LAUNCH_FAILED,
TENSOR_MEMORY_LEAK, EXTERNAL_DEVICE. Source: according to the driver's header, after any of these errors every further
call of the process fails, and the process must be restarted."""


class CudaError(KernelFailure):
    """A driver call that failed.

    Attributes:
        number: the ``CUresult``.
    """

    number = 0


class CudaLost(CudaError, DeviceLost):
    """A driver call that failed because a kernel ruined the context. Nothing can be freed any more."""


def cuda_error(what: str, number: int, where: str, name: str | None) -> CudaError:
    """The error N001 of a call.

    Args:
        what: the error's text.
        number: the ``CUresult``.
        where: the call.
        name: the number's name in the driver's header.
    """
    error = (CudaLost if number in LOST else CudaError)(what, code="N001", where=where, why=name)
    error.number = number
    return error
