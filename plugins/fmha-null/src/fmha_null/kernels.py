"""The null backend's kernels: one correct kernel per element type and family, and one for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from fmha_cli import api, plugin

ARCH = "null"
HDIM = 512
"""The largest head dims, a limit of this backend only."""

_DTYPES = (plugin.DType.FP32, plugin.DType.FP16, plugin.DType.BF16)


class Behaviour(StrEnum):
    """One planted behaviour; the comment names the resulting verdict."""

    HONEST = "honest"  # PASSED
    BUILD_ERROR = "build_error"  # BUILD_FAILED
    LAUNCH_ERROR = "launch_error"  # LAUNCH_FAILED
    EXCEPTION = "exception"  # CRASHED: the session raises an exception that it must not raise
    SEGFAULT = "segfault"  # CRASHED
    ABORT = "abort"  # CRASHED
    EXIT = "exit"  # CRASHED
    HANG = "hang"  # TIMED_OUT
    OOM = "oom"  # OUT_OF_MEMORY
    GARBAGE_STDOUT = "garbage_stdout"  # PASSED: its output is harmless
    GARBAGE_PROTOCOL = "garbage_protocol"  # CRASHED
    NAN = "nan"  # WRONG
    ZEROS = "zeros"  # WRONG
    WRONG_VALUE = "wrong_value"  # WRONG: one element
    NEVER_WRITES = "never_writes"  # WRONG, with a note that names the unwritten elements
    OOB_BEFORE = "oob_before"  # OUT_OF_BOUNDS: one element before o
    OOB_AFTER = "oob_after"  # OUT_OF_BOUNDS: one element after o
    OOB_GAP = "oob_gap"  # OUT_OF_BOUNDS in the gap after o's first row; PASSED if o has no gaps
    INPUT_WRITE = "input_write"  # OUT_OF_BOUNDS
    NONDETERMINISTIC = "nondeterministic"  # NONDETERMINISTIC: the last bit of one element alternates
    SLOW = "slow"  # PASSED, after ``SLOW_S``
    SPLIT_BY_BATCH = "split_by_batch"  # PASSED; the batch decides in how many parts the keys are split
    ORDER_BY_THREADS = "order_by_threads"  # PASSED; each thread sums a part of the keys
    TILE_BY_PLACE = "tile_by_place"  # PASSED; the place in the batch decides where the second block of keys begins


@dataclass(frozen=True, kw_only=True)
class NullAlgorithm(plugin.Algorithm):
    """The free choice of a null kernel."""

    behaviour: Behaviour = Behaviour.HONEST


def main_kernels() -> Iterator[api.KernelSpec]:
    """The correct kernels, then one kernel for each behaviour."""
    for dtype, family in product(_DTYPES, (plugin.Family.FWD, plugin.Family.FWD_SPLITKV)):
        yield null_kernel(dtype, family)
    for dtype, behaviour in product(_DTYPES, list(Behaviour)[1:]):
        splits = behaviour is Behaviour.SPLIT_BY_BATCH
        yield null_kernel(dtype, plugin.Family.FWD_SPLITKV if splits else plugin.Family.FWD, behaviour)


def null_kernel(dtype: plugin.DType, family: plugin.Family, behaviour: Behaviour = Behaviour.HONEST) -> api.KernelSpec:
    """One kernel, which admits everything that the session computes."""
    signature = plugin.Signature(
        dtype=dtype,
        dtype_out=dtype,
        hdim=HDIM,
        hdim_v=HDIM,
        mode=plugin.ModeKey.ANY,
        mask=plugin.MaskKey.ANY,
        sink=plugin.Need.ANY,
        sink_logits=plugin.Need.ANY,
        bias=plugin.BiasKey.ANY,
        softcap=plugin.Need.ANY,
        lse=plugin.Need.ANY,
        gqa=plugin.Need.ANY,
        cache=plugin.CacheKey.ANY,
        split=plugin.Need.NO if family is plugin.Family.FWD else plugin.Need.ANY,
        deterministic=plugin.Need.ANY,
    )
    algorithm = NullAlgorithm(behaviour=behaviour)
    return api.KernelSpec(backend="null", family=family, arch=ARCH, signature=signature, algorithm=algorithm)


def combine_kernels() -> Iterator[api.KernelSpec]:
    """The second stages of split plans."""
    return (null_kernel(dtype, plugin.Family.FWD_SPLITKV_COMBINE) for dtype in _DTYPES)


def behaviour_of(kernel: api.KernelSpec) -> Behaviour:
    """The behaviour of a null kernel."""
    assert isinstance(kernel.algorithm, NullAlgorithm)
    return kernel.algorithm.behaviour


def rank_of(kernel: api.KernelSpec) -> tuple[int, ...]:
    """Correct kernels rank before all others, the plain one before the split one."""
    return (list(Behaviour).index(behaviour_of(kernel)), int(kernel.family is not plugin.Family.FWD))
