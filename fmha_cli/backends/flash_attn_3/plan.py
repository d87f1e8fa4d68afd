"""The plan of a main kernel: its stages, their launches, and the workspaces."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fmha_cli.backends.cuda.scratch import workspaces
from fmha_cli.backends.flash_attn_3.backward_plan import backward_plan
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.launches import launch_for
from fmha_cli.backends.flash_attn_3.names import template
from fmha_cli.backends.flash_attn_3.scratch import scratch_of
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation, situation_of
from fmha_cli.backends.gpu.launching import launch_detail
from fmha_cli.codegen.flash_attn_3.facts import document
from fmha_cli.codegen.flash_attn_3.instance import FORWARD, algorithm_of, forward_instance
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need

Detail = tuple[tuple[str, str], ...]


def plan_of(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    """The plan around a main kernel that ``decide`` supports: prepare if lengths differ, the kernel, combine if it splits keys;
    or those of a backward pass."""
    s = situation_of(problem, device)
    if kernel.family.backward:
        return backward_plan(s, kernel)
    split = kernel.signature.split is Need.YES
    before = (prepare_for(s, kernel),) if algorithm_of(kernel).varlen else ()
    kernels = (*before, kernel, *((combine_for(s, kernel),) if split else ()))
    stages = tuple(Stage(k, tuple(_detail(k, s))) for k in kernels)
    return Plan(problem, stages, workspaces(scratch_of(s, kernel)), s.splits.count if split else 1)


def prepare_for(s: Fa3Situation, main: KernelSpec) -> KernelSpec:
    """The kernel that divides the tiles of sequences (``prepare_varlen_num_blocks``): the least warps that take all."""
    found = [k for k in family_kernels(main.arch, Family.FWD_PREPARE) if algorithm_of(k).sort == s.sorts]
    fitting = [k for k in found if algorithm_of(k).tile[0] >= s.problem.batch]
    return (fitting or found[-1:])[0]


def combine_for(s: Fa3Situation, main: KernelSpec) -> KernelSpec:
    """The kernel that adds up the parts of a main kernel (``run_mha_fwd_combine``, ``run_mha_fwd_combine_``).

    Raises:
        InternalError: no kernel takes so many parts. ``decide`` refuses such a count earlier.
    """
    columns = 64 if s.problem.hdim_v <= 64 else 128
    logs = next(logs for _, width, logs in document()["combine"] if width == columns)
    log = next((log for log in logs if s.splits.count <= 1 << log), None)
    for kernel in family_kernels(main.arch, Family.FWD_SPLITKV_COMBINE):
        a = algorithm_of(kernel)
        same = kernel.signature.dtype is main.signature.dtype_out and a.varlen == s.packed_q
        if same and (a.tile[1], a.log_max_splits) == (columns, log):
            return kernel
    raise InternalError(f"{main.name}: no kernel adds up {s.splits.count} parts", where="plan")


def _detail(kernel: KernelSpec, s: Fa3Situation) -> Iterator[tuple[str, str]]:
    launch, main = launch_for(kernel, s), kernel.family in FORWARD
    persistent = launch.grid == (s.multiprocessors, 1, 1)
    formula = f"{s.multiprocessors} multiprocessors" if main and persistent else ""
    shape = launch.grid, prod(launch.block), launch.shared, template(kernel)
    yield from launch_detail(*shape, formula=formula, launched=s.launches)
    if main:
        yield "scheduler", forward_instance(kernel).scheduler.value
        yield "cluster", f"{launch.cluster} x 1 x 1"
    yield "splits", f"{s.splits.count}: {s.splits.why}"
