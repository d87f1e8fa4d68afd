"""What a plan says about a launch."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.mem_efficient.scratch import COPIES, storage_of
from fmha_cli.backends.mem_efficient.situation import Situation
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec


def details(kernel: KernelSpec, situation: Situation) -> Iterator[tuple[str, str]]:
    """What a plan says about a launch besides its shape."""
    p, m = situation.problem, storage_of(situation.problem, kernel)
    t = m.traits
    yield "x", f"ceil({p.seqlen_q}/{t.algorithm.tile[0]})" if t.forward else "blocks that share the keys of a head"
    if t.dtype is DType.FP32:
        fast = t.algorithm.tag >= 80
        yield "fp32", "products of three TF32 terms on tensor cores" if fast else "single-precision multiply-add (SIMT)"
    if situation.launches and m.copied:
        names = [COPIES[name] for name in m.copied]
        yield "copied by the host", f"{', '.join(names)}: {sum(m.scratch[name].nbytes for name in names)} bytes"
    if p.kv_heads < p.heads:
        yield "heads", "all read one key head" if m.shared else f"K and V repeated {p.heads // p.kv_heads} times"
    if not t.forward:
        yield "dq", "summed in a fixed order" if m.splits == 1 else "summed in no fixed order"
