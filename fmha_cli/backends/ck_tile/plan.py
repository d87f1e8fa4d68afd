"""The plan of a main kernel: its stages in launch order, their grids, and the workspaces."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.ck_tile import stages
from fmha_cli.backends.ck_tile.api_conditions import ROWS_1D
from fmha_cli.backends.ck_tile.index_limits import grid_of, merges_heads
from fmha_cli.backends.ck_tile.situation import CkSituation, situation_of, wave_of
from fmha_cli.backends.ck_tile.splits import log2_max_splits
from fmha_cli.backends.ck_tile.workspaces import list_zeroed, workspaces_of
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need

FULL_WAVE = 64
FLOATS_PER_LOAD = 4
Detail = tuple[tuple[str, str], ...]


def plan_of(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    """The plan around a main kernel that ``decide`` supports.

    The forward stages are append (when keys are appended), the main kernel and combine (split-KV). The backward stages
    are dot_do_o, dq_dk_dv and, unless the main kernel writes dQ itself, convert_dq.

    Raises:
        InternalError: a stage is missing, or the kernel is itself a stage; ``decide`` refuses both.
    """
    s = situation_of(problem, device)
    made = tuple(_backward(s, kernel) if kernel.family is Family.BWD_DQ_DK_DV else _forward(s, kernel))
    splits = s.splits.count if kernel.family is Family.FWD_SPLITKV else 1
    return Plan(problem, made, workspaces_of(problem, made, splits), splits)


def _forward(s: CkSituation, main: KernelSpec) -> Iterator[Stage]:
    if s.problem.append:
        append = _require(stages.append_for(s, main), main, Family.FWD_APPENDKV)
        yield Stage(append, _append_detail(s, append))
    yield Stage(main, _main_detail(s, main))
    if main.family is Family.FWD_SPLITKV:
        combine = _require(stages.combine_for(s, main), main, Family.FWD_SPLITKV_COMBINE)
        yield Stage(combine, _combine_detail(s, combine))


def _backward(s: CkSituation, main: KernelSpec) -> Iterator[Stage]:
    p = s.problem
    rows = _grid((-(-s.max_rows // ROWS_1D), p.heads, p.batch), f"ceil({s.max_rows}/{ROWS_1D})")
    yield Stage(_require(stages.dot_for(s, main), main, Family.BWD_DOT_DO_O), (rows, ("writes", "d")))
    yield Stage(main, _main_detail(s, main))
    if stages.converts(main):
        convert = _require(stages.convert_for(s, main), main, Family.BWD_CONVERT_DQ)
        yield Stage(convert, (rows, ("reads", "dq_acc")))


def _require(kernel: KernelSpec | None, main: KernelSpec, family: Family) -> KernelSpec:
    if kernel is None:
        raise InternalError(f"{main.name}: no {family.value} kernel matches it", where="plan")
    return kernel


def _main_detail(s: CkSituation, kernel: KernelSpec) -> Detail:
    a, merged = algorithm_of(kernel), merges_heads(s, kernel)
    grid = grid_of(s, kernel, merged=merged)
    if kernel.family is Family.BWD_DQ_DK_DV:
        formula = "1" if a.max_seq_q else f"ceil({s.max_keys}/{a.tile[1]})"
        heads = (
            () if s.problem.kv_heads == s.problem.heads else (("dk, dv", "one per query head, summed by the session"),)
        )
        return (_grid(grid, formula), *_accumulation(s, kernel), *heads)
    formula = f"ceil({s.max_rows}/{a.tile[0]})*ceil({s.problem.hdim_v}/{a.tile[3]})"
    if kernel.family is not Family.FWD_SPLITKV:
        return (_grid(grid, formula),)
    rows = s.problem.heads // s.problem.kv_heads if merged else s.max_rows
    formula = f"ceil({rows}/{a.tile[0]})*ceil({s.problem.hdim_v}/{a.tile[3]})*{s.splits.count}"
    out = (_grid(grid, formula), ("splits", str(s.splits.count)), ("splits from", s.splits.why))
    return (*out, ("heads of a group", "one head's rows")) if merged else out


def _accumulation(s: CkSituation, kernel: KernelSpec) -> Detail:
    """How dQ is computed, and which buffers start as zeros."""
    if not stages.converts(kernel):
        return (("dq", "written by this stage"),)
    deterministic = kernel.signature.deterministic is Need.YES
    parts = -(-s.max_keys // algorithm_of(kernel).tile[1]) if deterministic else 1
    return (
        ("dq_acc", f"{parts} parts, each written once" if deterministic else "added to atomically"),
        ("zeroed first", ", ".join(list_zeroed(Plan(s.problem, (Stage(kernel),)))) or "nothing"),
    )


def _append_detail(s: CkSituation, kernel: KernelSpec) -> Detail:
    p, tile = s.problem, algorithm_of(kernel).tile
    formula = f"max(ceil({s.max_rows}/{tile[0]}), ceil({p.append}/{tile[1]}))"
    blocks = max(-(-s.max_rows // tile[0]), -(-p.append // tile[1]))
    return _grid((blocks, p.heads, p.batch), formula), ("keys appended", str(p.append))


def _combine_detail(s: CkSituation, kernel: KernelSpec) -> Detail:
    """Rows per block: the lanes of a wave divided by the number of four-float loads in a row of bn1."""
    log2 = log2_max_splits(s.splits.count)
    if log2 is None:
        raise InternalError(f"{s.splits.count} splits: more than any combine kernel handles", where="plan")
    p, columns = s.problem, algorithm_of(kernel).tile[0]
    rows = (wave_of(kernel.arch) or FULL_WAVE) * FLOATS_PER_LOAD // columns
    tiles = -(-s.max_rows // rows) * -(-p.hdim_v // columns)
    grid = _grid((tiles, p.heads, p.batch), f"ceil({s.max_rows}/{rows})*ceil({p.hdim_v}/{columns})")
    return grid, ("splits", str(s.splits.count)), ("compiled for splits up to", str(1 << log2))


def _grid(grid: tuple[int, int, int], formula: str) -> tuple[str, str]:
    return "grid", f"{' x '.join(map(str, grid))}; tiles = {formula}"
