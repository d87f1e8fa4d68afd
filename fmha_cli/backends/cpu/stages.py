"""The stages of a CPU plan: appended keys first, then the main kernel, then the combine kernel of split keys."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.cpu.arguments import PARTS, Q_ROTATED
from fmha_cli.backends.cpu.kernels import algorithm_of, stage_kernel
from fmha_cli.backends.cpu.rules import group_rows
from fmha_cli.codegen.abi import part_floats
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import shapes_of

_FLOAT_BYTES = 4


def plan_of(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    """The plan of one pass. Raises as ``algorithm_of``."""
    stages = (_stage(problem, stage) for stage in _kernels(problem, kernel))
    return Plan(problem, tuple(stages), tuple(_workspaces(problem, kernel)), _splits(problem, kernel))


def _kernels(problem: Problem, kernel: KernelSpec) -> Iterator[KernelSpec]:
    if problem.append:
        yield stage_kernel(kernel, LoopKind.APPEND)
    yield kernel
    if algorithm_of(kernel).kind is LoopKind.SPLIT:
        yield stage_kernel(kernel, LoopKind.COMBINE)


def _stage(problem: Problem, kernel: KernelSpec) -> Stage:
    algorithm = algorithm_of(kernel)
    kind, lanes = algorithm.kind, algorithm.simd.lanes * algorithm.lanes_q
    more = {
        LoopKind.APPEND: (("rows", str(problem.batch * problem.append)), ("rotary", problem.rotary.text())),
        LoopKind.COMBINE: (("splits", str(problem.splits)),),
        LoopKind.SPLIT: (("splits", str(problem.splits)),),
    }
    tile = (
        ()
        if kind in (LoopKind.APPEND, LoopKind.COMBINE)
        else (("tile", f"{lanes}x{algorithm.rows_s}x{algorithm.block_k}"),)
    )
    return Stage(kernel, (("kind", kind.value), *tile, *more.get(kind, ())))


def _workspaces(problem: Problem, kernel: KernelSpec) -> Iterator[Workspace]:
    if problem.rotary.dim:
        yield Workspace(Q_ROTATED, shapes_of(problem)["q"].nbytes)
    if algorithm_of(kernel).kind is LoopKind.SPLIT:
        parts = problem.batch * problem.kv_heads * problem.splits
        yield Workspace(PARTS, parts * part_floats(group_rows(problem), problem.hdim_v) * _FLOAT_BYTES)


def _splits(problem: Problem, kernel: KernelSpec) -> int:
    return problem.splits if algorithm_of(kernel).kind is LoopKind.SPLIT else 1
