"""The plan of a main kernel: its stages in launch order, their grids, and the workspaces."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.flash_attn.grids import grid_of
from fmha_cli.backends.flash_attn.key import key_of
from fmha_cli.backends.flash_attn.scratch import workspaces_of
from fmha_cli.backends.flash_attn.situation import Situation, situation_of
from fmha_cli.backends.flash_attn.stages import combine_for, convert_for, dot_for
from fmha_cli.backends.flash_attn.upstream_names import template_text
from fmha_cli.codegen.flash_attn.traits import smem_bytes, threads
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need

Detail = tuple[tuple[str, str], ...]


def plan_of(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    """The plan around a main kernel that ``decide`` supports.

    A forward plan has the main kernel, followed by combine if the main kernel splits keys. A backward plan has
    dot_do_o, dq_dk_dv and convert_dq. Where upstream's host fills the outputs itself (``Situation.launches``), the plan
    has the same stages, and their details say that nothing is launched.

    Raises:
        InternalError: the kernel is itself a stage, or has no stage kernels. ``decide`` refuses both.
    """
    s = situation_of(problem, device)
    splits = s.splits.count if kernel.signature.split is Need.YES else 1
    stages = tuple(Stage(k, _detail(s, k, splits)) for k in _kernels(s, kernel, splits))
    return Plan(problem, stages, workspaces_of(s, kernel, splits), splits)


def _kernels(s: Situation, main: KernelSpec, splits: int) -> Iterator[KernelSpec]:
    if main.family is Family.BWD_DQ_DK_DV:
        yield from (dot_for(s, main), main, convert_for(main))
    elif main.family in (Family.FWD, Family.FWD_SPLITKV):
        yield main
        if splits > 1:
            yield combine_for(s, main, splits)
    else:
        raise InternalError(f"{main.name} is no main kernel", where="plan")


def _detail(s: Situation, kernel: KernelSpec, splits: int) -> Detail:
    grid = grid_of(s, kernel, splits)
    blocks = " x ".join(map(str, grid.blocks))
    launch = f"{blocks}; x = {grid.formula}" if s.launches else "none: there is nothing to read, the host fills"
    common = (
        ("grid", launch),
        ("block", f"{threads(kernel)} threads, {smem_bytes(kernel)} bytes of shared memory"),
        ("template", template_text(kernel)),
    )
    return (*common, *_own(s, kernel, splits))


def _own(s: Situation, kernel: KernelSpec, splits: int) -> Iterator[tuple[str, str]]:
    """The details that only this stage has."""
    deterministic = s.problem.deterministic
    if kernel.family in (Family.FWD, Family.FWD_SPLITKV):
        yield from _keyed(s, kernel)
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
        yield from _keyed(s, kernel)
        parts = f"{s.dq_parts} parts, zeroed first: each block adds to its own" if deterministic else "one, by atomics"
        yield "dq_accum", parts
        if s.groups > 1:
            yield "dk, dv", "one for each query head, summed by the session"
    else:
        yield "reads", f"dq_accum, {s.dq_parts} part{'s' if s.dq_parts > 1 else ''}"


def _keyed(s: Situation, kernel: KernelSpec) -> Iterator[tuple[str, str]]:
    key = key_of(s.problem, kernel.arch, s.device)
    yield "api", s.api.value
    yield "key", key.name
    yield "key digest", key.digest[:16]
