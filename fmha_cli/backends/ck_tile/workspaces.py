"""Scratch tensors of CK's families: names, bytes and element strides.

The plan declares them; the core allocates, poisons and guards them; the argument blocks point into them. Shapes are
upstream's (``example/ck_tile/01_fmha/fmha_fwd_runner.hpp`` and ``fmha_bwd_runner.hpp``). Elements are fp32 unless
stated otherwise. In group mode, a batch of 1 holds the packed rows:

- ``lse_acc`` (batch, heads, splits, rows), ``o_acc`` (batch, heads, splits, rows, hdim_v): partial results of split-KV.
- ``d`` (batch, heads, rows): row sums of dO * O. It has slack, since it shares ``lse``'s strides, which may have gaps.
- ``dq_acc`` (dq_splits, then Q's own axes): dQ before it is converted. dq_splits is 1 unless deterministic.
- ``dk_heads``, ``dv_heads`` (K's and V's axes with the query heads, element type of dK): with GQA the kernel writes
  one dK and dV for each query head, and the session sums them.
- ``q_rotated`` (Q's axes, Q's strides): a copy of Q, because the append kernel rotates Q in place.
- ``randval`` (batch, heads, rows, seqlen_k), bytes: only for kernels that store the random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from fmha_cli.backends.ck_tile.shapes import row_count, swap_heads
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.plan import Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need
from fmha_cli.domain.tensors import shapes_of

FP32 = 4
LSE_SLACK = 32
"""How many bytes one row of gapped ``lse`` may exceed its dense length, see ``execution.layout``."""


def workspaces_of(problem: Problem, stages: Iterable[Stage], splits: int) -> tuple[Workspace, ...]:
    """The workspaces of a plan with these stages. ``splits`` is the plan's number of key splits."""
    kernels = {stage.family: stage.kernel for stage in stages}
    out: list[Workspace] = []
    if Family.FWD_SPLITKV in kernels:
        out.append(Workspace("lse_acc", FP32 * prod(lse_acc_shape(problem, splits))))
        out.append(Workspace("o_acc", FP32 * prod(o_acc_shape(problem, splits))))
    if Family.FWD_APPENDKV in kernels and problem.rotary.dim:
        out.append(Workspace("q_rotated", _rotated_bytes(problem)))
    if Family.BWD_DQ_DK_DV in kernels:
        out += _backward(problem, kernels[Family.BWD_DQ_DK_DV], convert=Family.BWD_CONVERT_DQ in kernels)
    return tuple(w for w in out if w.bytes)


def _backward(problem: Problem, main: KernelSpec, *, convert: bool) -> list[Workspace]:
    batch = 1 if problem.mode is Mode.GROUP else problem.batch
    rows = row_count(problem)
    out = [Workspace("d", batch * (problem.heads * (FP32 * rows + LSE_SLACK) + LSE_SLACK))]
    if convert:
        out.append(Workspace("dq_acc", FP32 * prod(dq_acc_shape(problem, main))))
    if problem.kv_heads != problem.heads:
        shapes = shapes_of(problem)
        for name, source in (("dk_heads", "dk"), ("dv_heads", "dv")):
            shape = swap_heads(shapes[source].shape, problem)
            out.append(Workspace(name, prod(shape) * shapes[source].dtype.nbytes))
    if algorithm_of(main).store_randval:
        out.append(Workspace("randval", batch * problem.heads * rows * problem.seqlen_k))
    return out


def lse_acc_shape(problem: Problem, splits: int) -> tuple[int, ...]:
    """(batch, heads, splits, rows); batch is 1 in group mode."""
    batch = 1 if problem.mode is Mode.GROUP else problem.batch
    return batch, problem.heads, splits, row_count(problem)


def o_acc_shape(problem: Problem, splits: int) -> tuple[int, ...]:
    """(batch, heads, splits, rows, hdim_v)."""
    return *lse_acc_shape(problem, splits), problem.hdim_v


def dq_splits(problem: Problem, main: KernelSpec) -> int:
    """Copies of dQ that a deterministic kernel writes: one per key tile (``kN0``)."""
    if main.signature.deterministic is not Need.YES:
        return 1
    return -(-problem.seqlen_k // algorithm_of(main).tile[1])


def dq_acc_shape(problem: Problem, main: KernelSpec) -> tuple[int, ...]:
    """(dq_splits, *the shape of q)."""
    return dq_splits(problem, main), *shapes_of(problem)["q"].shape


def _rotated_bytes(problem: Problem) -> int:
    """Q's extent, with the slack of an arena whose rows have gaps (16 to 32 bytes after each item of an axis)."""
    q = shapes_of(problem)["q"]
    extent = q.shape[-1] * q.dtype.nbytes
    for length in reversed(q.shape[:-1]):
        extent = length * (extent + LSE_SLACK)
    return extent


def list_zeroed(plan: Plan) -> tuple[str, ...]:
    """Names of tensors and workspaces that must be zero before a launch. A plan may lack some of them.

    - ``dq_acc``: blocks add to it atomically or, if deterministic and masked, do not write the parts of hidden tiles.
    - ``dbias``: tiles that a mask hides are not written.
    - dQ, dK and dV, if a packed sequence has no queries or no keys: its blocks return at once.

    Source: ``example/ck_tile/01_fmha/fmha_bwd_runner.hpp`` (``dq_acc_buf.SetZero``, ``dbias_buf.SetZero``) and the early
    returns of ``ck_tile/ops/fmha/kernel/fmha_bwd_kernel.hpp`` ``FmhaBwdDQDKDVKernel``.
    """
    if all(stage.family is not Family.BWD_DQ_DK_DV for stage in plan.stages):
        return ()
    p = plan.problem
    masked, group = p.mask.kind is not MaskKind.NONE, p.mode is Mode.GROUP
    out = []
    if plan.main.signature.deterministic is not Need.YES or masked or group:
        out.append("dq_acc")
    if masked or group:
        out.append("dbias")
    if group and 0 in (*p.query_lengths(), *p.key_lengths()):
        out += ["dq", "dk", "dv", "dk_heads", "dv_heads"]
    return tuple(out)
