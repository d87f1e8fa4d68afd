"""The kernels around a main kernel: combine, and the backward pass's first and last stage.

Source, in ``csrc/flash_attn/src``:

- ``flash_fwd_launch_template.h`` ``run_flash_splitkv_fwd``: the combine kernel has the traits of the split-KV kernel.
- ``flash_bwd_launch_template.h`` ``run_flash_bwd_seqk_parallel``: all three kernels share their traits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.flash_attn.splits import log2_max_splits
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec

Wanted = Callable[[FaAlgorithm], bool]


def combine_for(s: Situation, main: KernelSpec, splits: int) -> KernelSpec:
    """The combine kernel of a split-KV kernel for a number of splits.

    Raises:
        InternalError: no combine kernel takes so many splits. ``decide`` refuses such a count earlier.
    """
    log2 = log2_max_splits(splits)
    return _one(main, Family.FWD_SPLITKV_COMBINE, lambda a: a.even_k == s.fills_bucket and a.log_max_splits == log2)


def dot_for(s: Situation, main: KernelSpec) -> KernelSpec:
    """The kernel that sums the rows of dO * O. It also clears dQ's accumulator unless the pass is deterministic."""
    clear = not s.problem.deterministic
    return _one(main, Family.BWD_DOT_DO_O, lambda a: _alike(a, main) and a.clear_dq_accum == clear)


def convert_for(main: KernelSpec) -> KernelSpec:
    """The kernel that sums and converts dQ."""
    return _one(main, Family.BWD_CONVERT_DQ, lambda a: _alike(a, main))


def _alike(a: FaAlgorithm, main: KernelSpec) -> bool:
    b = algorithm_of(main)
    same = (a.tile, a.warps, a.atoms) == (b.tile, b.warps, b.atoms)
    return same and (a.v_in_regs, a.single_buffer) == (b.v_in_regs, b.single_buffer)


def _one(main: KernelSpec, family: Family, wanted: Wanted) -> KernelSpec:
    around = _around(main.arch, family, main.signature.dtype.value, main.signature.hdim)
    found = [kernel for kernel in around if wanted(algorithm_of(kernel))]
    if len(found) != 1:
        raise InternalError(f"{main.name}: {len(found)} {family.value} kernels go with it", where="plan")
    return found[0]


@lru_cache(maxsize=512)
def _around(arch: str, family: Family, dtype: str, hdim: int) -> tuple[KernelSpec, ...]:
    """The kernels of a stage family with one element type and head dim."""
    from fmha_cli.backends.flash_attn.catalogue import family_kernels

    kernels = family_kernels(load_arch(arch), family)
    return tuple(k for k in kernels if k.signature.dtype.value == dtype and k.signature.hdim == hdim)
