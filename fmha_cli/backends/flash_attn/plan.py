"""The plan of a main kernel: its stages in launch order, their grids, and the workspaces.

Source, in ``csrc/flash_attn/src``:

- ``flash_fwd_launch_template.h`` ``run_flash_fwd`` and ``run_flash_splitkv_fwd``: the combine kernel has the traits of the
  split-KV kernel.
- ``flash_bwd_launch_template.h`` ``run_flash_bwd_seqk_parallel``: all three kernels share their traits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.index_limits import grid_yz
from fmha_cli.backends.flash_attn.key import key_of
from fmha_cli.backends.flash_attn.scratch import workspaces_of
from fmha_cli.backends.flash_attn.situation import FlashSituation, situation_of
from fmha_cli.backends.flash_attn.tiles import log_max_splits
from fmha_cli.backends.gpu.launching import launch_detail
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.codegen.flash_attn.traits import algorithm_of, rows_per_block, smem_bytes, threads, traits_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need

Detail = tuple[tuple[str, str], ...]
Wanted = Callable[[FaAlgorithm], bool]


def plan_of(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    """The plan around a main kernel that ``decide`` supports.

    A forward plan has the main kernel, followed by combine if the main kernel splits keys. A backward plan has
    dot_do_o, dq_dk_dv and convert_dq. Where upstream's host fills the outputs itself (``FlashSituation.launches``), the plan
    has the same stages, and their details say that no kernel is launched.

    Raises:
        InternalError: the kernel is itself a stage, or has no stage kernels. ``decide`` refuses both.
    """
    s = situation_of(problem, device)
    splits = s.splits.count if kernel.signature.split is Need.YES else 1
    stages = tuple(Stage(k, _detail(s, k, splits)) for k in _kernels(s, kernel, splits))
    return Plan(problem, stages, workspaces_of(s, kernel, splits), splits)


def _kernels(s: FlashSituation, main: KernelSpec, splits: int) -> Iterator[KernelSpec]:
    if main.family is Family.BWD_DQ_DK_DV:
        yield from (dot_for(s, main), main, convert_for(main))
    elif main.family in (Family.FWD, Family.FWD_SPLITKV):
        yield main
        if splits > 1:
            yield combine_for(s, main, splits)
    else:
        raise InternalError(f"{main.name} is not a main kernel", where="plan")


def _detail(s: FlashSituation, kernel: KernelSpec, splits: int) -> Detail:
    grid, template = grid_of(s, kernel, splits), instance_of(kernel).template_id
    shape = grid.blocks, threads(kernel), smem_bytes(kernel)
    common = launch_detail(*shape, template, formula=grid.formula, launched=s.launches)
    return (*common, *_own(s, kernel, splits))


def _own(s: FlashSituation, kernel: KernelSpec, splits: int) -> Iterator[tuple[str, str]]:
    """The details that only this stage has."""
    deterministic = s.problem.deterministic
    if kernel.family in (Family.FWD, Family.FWD_SPLITKV):
        yield from _spell_key(s, kernel)
        if kernel.family is Family.FWD_SPLITKV:
            yield "splits", str(splits)
            yield "splits from", s.splits.why if splits > 1 or s.splits.count == 1 else "the kernel does not split"
        if s.swapped:
            yield "rows", f"one query row: the {s.groups} query heads of a group are taken as rows"
        if s.causal_dropped:
            yield "mask", "causal over one query row hides nothing"
    elif kernel.family is Family.FWD_SPLITKV_COMBINE:
        yield "splits", str(splits)
    elif kernel.family is Family.BWD_DOT_DO_O:
        yield "writes", "softmax_d" if deterministic else "softmax_d; zeroes dq_accum where it will be added to"
    elif kernel.family is Family.BWD_DQ_DK_DV:
        yield from _spell_key(s, kernel)
        parts = f"{s.dq_parts} parts, zeroed first: each block adds to its own" if deterministic else "one, by atomics"
        yield "dq_accum", parts
        if s.groups > 1:
            yield "dk, dv", "one for each query head, summed by the session"
    else:
        yield "reads", f"dq_accum, {s.dq_parts} part{'s' if s.dq_parts > 1 else ''}"


def _spell_key(s: FlashSituation, kernel: KernelSpec) -> Iterator[tuple[str, str]]:
    key = key_of(s.problem, kernel.arch, s.device)
    yield "api", s.api.value
    yield "key", key.name
    yield "key digest", key.digest[:16]


class Grid(NamedTuple):
    """Blocks along x, y and z, and the formula of x."""

    x: int
    y: int
    z: int
    formula: str

    @property
    def blocks(self) -> tuple[int, int, int]:
        return self.x, self.y, self.z


def grid_of(s: FlashSituation, kernel: KernelSpec, splits: int) -> Grid:
    """The grid of a kernel of any stage. ``splits`` is the plan's count."""
    step, batch = rows_per_block(kernel), s.problem.batch
    if kernel.family is Family.FWD_SPLITKV_COMBINE:
        rows = batch * s.heads * s.seqlen_q
        return Grid(-(-rows // step), 1, 1, f"ceil({batch}*{s.heads}*{s.seqlen_q}/{step})")
    if kernel.family is not Family.BWD_DQ_DK_DV:
        y, z = grid_yz(s, split=splits > 1 and kernel.family is Family.FWD_SPLITKV)
        return Grid(-(-s.seqlen_q // step), y, z, f"ceil({s.seqlen_q}/{step})")
    if s.problem.deterministic:
        formula = f"ceil({s.multiprocessors} multiprocessors/({batch}*{s.heads}))"
        return Grid(s.dq_parts, batch, s.heads, formula)
    return Grid(-(-s.seqlen_k // step), batch, s.heads, f"ceil({s.seqlen_k}/{step})")


def combine_for(s: FlashSituation, main: KernelSpec, splits: int) -> KernelSpec:
    """The combine kernel of a split-KV kernel for a number of splits.

    Raises:
        InternalError: no combine kernel takes so many splits. ``decide`` refuses such a count earlier.
    """
    log2 = log_max_splits(splits)
    return _one(main, Family.FWD_SPLITKV_COMBINE, lambda a: a.even_k == s.fills_bucket and a.log_max_splits == log2)


def dot_for(s: FlashSituation, main: KernelSpec) -> KernelSpec:
    """The kernel that sums the rows of dO * O. It also clears dQ's accumulator unless the pass is deterministic."""
    clear = not s.problem.deterministic
    return _one(main, Family.BWD_DOT_DO_O, lambda a: a == replace(traits_of(main), clear_dq_accum=clear))


def convert_for(main: KernelSpec) -> KernelSpec:
    """The kernel that sums and converts dQ."""
    return _one(main, Family.BWD_CONVERT_DQ, lambda a: a == traits_of(main))


def _one(main: KernelSpec, family: Family, wanted: Wanted) -> KernelSpec:
    around = _around(main.arch, family, main.signature.dtype.value, main.signature.hdim)
    found = [kernel for kernel in around if wanted(algorithm_of(kernel))]
    if len(found) != 1:
        raise InternalError(f"{main.name}: {len(found)} {family.value} kernels match it", where="plan")
    return found[0]


@lru_cache(maxsize=512)
def _around(arch: str, family: Family, dtype: str, hdim: int) -> tuple[KernelSpec, ...]:
    """The kernels of a stage family with one element type and head dim."""

    kernels = family_kernels(load_arch(arch), family)
    return tuple(k for k in kernels if k.signature.dtype.value == dtype and k.signature.hdim == hdim)
