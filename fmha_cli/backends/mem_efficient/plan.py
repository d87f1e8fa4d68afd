"""The plan of a kernel: one stage, and the workspaces."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.cuda.scratch import workspaces
from fmha_cli.backends.mem_efficient.arguments import grid_of
from fmha_cli.backends.mem_efficient.scratch import COPIES, Storage, storage_of
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem


def plan_of(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
    """The plan around a kernel that ``decide`` supports. Where nothing is launched it has the stage, but no workspaces."""
    m = storage_of(problem, kernel)
    return Plan(problem, (Stage(kernel, tuple(_detail(m))),), workspaces(m.scratch))


def _detail(m: Storage) -> Iterator[tuple[str, str]]:
    t, p = m.traits, m.problem
    formula = f"ceil({p.seqlen_q}/{t.algorithm.tile[0]})" if t.forward else "blocks that share the keys of a head"
    launched = f"{' x '.join(map(str, grid_of(m)))}; x = {formula}"
    yield "grid", launched if m.scratch else "none: there is nothing to read, so the host fills the outputs"
    yield "block", f"{t.threads} threads, {t.shared_bytes} bytes of shared memory"
    yield "template", t.template
    if t.dtype is DType.FP32:
        fast = t.algorithm.tag >= 80
        yield "fp32", "products of three TF32 terms on tensor cores" if fast else "single-precision multiply-add (SIMT)"
    if m.scratch and m.copied:
        names = [COPIES[name] for name in m.copied]
        yield "copied by the host", f"{', '.join(names)}: {sum(m.scratch[name].nbytes for name in names)} bytes"
    if p.kv_heads < p.heads:
        yield "heads", "all read one key head" if m.shared else f"K and V repeated {p.heads // p.kv_heads} times"
    if not t.forward:
        yield "dq", "summed in a fixed order" if m.splits == 1 else "summed in no fixed order"
