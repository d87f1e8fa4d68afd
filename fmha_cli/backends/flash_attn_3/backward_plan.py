"""The stages of a backward pass and their launches.

Source: ``hopper/flash_bwd_launch_template.h`` ``run_flash_bwd``: what comes before and after has the main kernel's traits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from fmha_cli.backends.cuda.scratch import workspaces
from fmha_cli.backends.flash_attn_3.backward_arguments import WRITES, backward_instance
from fmha_cli.backends.flash_attn_3.backward_sizes import BackwardSizes, backward_scratch, cleared_by
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation
from fmha_cli.backends.gpu.launching import Launch, launch_detail
from fmha_cli.codegen.flash_attn_3.backward_instance import (
    LPT,
    Backward,
    BackwardInstance,
    ConvertInstance,
    backward_of,
)
from fmha_cli.codegen.flash_attn_3.backward_memory import backward_bytes
from fmha_cli.codegen.flash_attn_3.instance import algorithm_of
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage


def backward_plan(s: Fa3Situation, main: KernelSpec) -> Plan:
    """The plan around a main kernel: row sums, the kernel, dQ, and with grouped heads dK and dV."""
    i = backward_instance(main)
    kernels = [(dot_for(main), "softmax_d, softmax_lse_log2; clears dq_accum and dq_semaphore"), (main, _written(i))]
    kernels.append((convert_for(main, of_keys=False), "dq"))
    if i.a.gqa:
        kernels += ((convert_for(main, of_keys=True), name) for name in ("dk", "dv"))
    stages = tuple(Stage(kernel, tuple(_detail(kernel, s, writes))) for kernel, writes in kernels)
    return Plan(s.problem, stages, workspaces(backward_scratch(s, i)), 1)


def _written(i: BackwardInstance) -> str:
    order = "in the order of the key tiles" if i.a.fixed_order else "by atomics"
    if not i.a.gqa:
        return f"dk, dv; dq_accum {order}"
    return f"dq_accum, dk_accum and dv_accum {order}"


def dot_for(main: KernelSpec) -> KernelSpec:
    """The kernel before a main kernel."""
    a = algorithm_of(main)
    return _one(main, Family.BWD_DOT_DO_O, {"tile": a.tile[:1], "varlen": a.varlen})


def convert_for(main: KernelSpec, *, of_keys: bool) -> KernelSpec:
    """The kernel that converts dQ, or dK and dV."""
    plain = replace(algorithm_of(main), varlen=False, gqa=False, fixed_order=False, of_keys=of_keys)
    return _one(main, Family.BWD_CONVERT_DQ, vars(plain))


def _one(main: KernelSpec, family: Family, wanted: dict[str, object]) -> KernelSpec:
    s = main.signature
    for kernel in family_kernels(main.arch, family):
        same = (kernel.signature.dtype, kernel.signature.hdim) == (s.dtype, s.hdim)
        if same and all(getattr(kernel.algorithm, name) == value for name, value in wanted.items()):
            return kernel
    raise InternalError(f"{main.name}: no {family.value} kernel has its traits", where="plan")


def backward_launch(i: Backward, s: Fa3Situation) -> Launch:
    """The launch of a stage: a block for each tile of a head of a sequence. The LPT scheduler counts them in one dimension."""
    p = s.problem
    threads, shared = (i.threads, 1, 1), backward_bytes(i)
    if isinstance(i, BackwardInstance):
        tiles = BackwardSizes.of(s, i).key_tiles
        grid = (tiles * p.heads * p.batch, 1, 1) if i.scheduler == LPT else (tiles, p.heads, p.batch)
        return Launch(grid, threads, shared, cleared=cleared_by(i))
    of_keys = isinstance(i, ConvertInstance) and i.a.of_keys
    rows = i.rows if isinstance(i, ConvertInstance) else i.a.tile[0]
    length, heads = (s.seqlen_k, p.kv_heads) if of_keys else (s.seqlen_q, p.heads)
    return Launch((-(-length // rows), heads, p.batch), threads, shared)


def _detail(kernel: KernelSpec, s: Fa3Situation, writes: str) -> Iterator[tuple[str, str]]:
    i = backward_of(kernel.family, kernel.signature, algorithm_of(kernel))
    launch = backward_launch(i, s)
    yield from launch_detail(launch.grid, prod(launch.block), launch.shared, i.template_id, launched=s.launches)
    if isinstance(i, BackwardInstance):
        yield "scheduler", i.scheduler
    yield WRITES, writes
