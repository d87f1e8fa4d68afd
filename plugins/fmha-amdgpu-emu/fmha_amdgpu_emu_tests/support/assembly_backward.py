"""The backward kernels: ``csrc/include/mha_bwd.h``, ``hsa/gfx942|gfx950/fmha_v3_bwd/codegen.py`` ``fmha_bwd_v3_*``.

Upstream runs three kernels. The first, from Composable Kernel, computes row sums of dO * O; these tests use numpy. The
second is in assembly. The last converts the accumulated values to dQ. For fp32 it is Composable Kernel's (numpy in
these tests). For gfx950's packed 16-bit accumulator it is ``dq_shuffle``, in assembly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_amdgpu_emu_tests.support.anchor_reference import gradients
from fmha_amdgpu_emu_tests.support.assembly_kernels import Argument, bits, describe, run, slots

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Backward:
    """One launch. Several lengths are batch entries, or sequences in group mode.

    Attributes:
        code: the code object below ``hsa``; its name contains the type, the mask and how dQ is accumulated.
        lengths: (seqlen_q, seqlen_k) of each batch entry; in batch mode, all are equal.
        tile: keys per work-group (``FmhaBwdV3Ts::ts_kv``).
        heads: of Q, and of K and V.
        turn: the launch option. races: whether the kernel is known for a race (``assembly_cases``).
    """

    code: str
    lengths: tuple[tuple[int, int], ...]
    tile: int
    heads: tuple[int, int] = (2, 2)
    hdim: int = 128
    seed: int = 0
    turn: int = 0
    races: bool = False

    @property
    def title(self) -> str:
        return f"{self.code.removesuffix('.co')} {describe(self.lengths)}"

    @property
    def limit(self) -> float:
        """The limit of a row's error: P, dS and the outputs are rounded to the type."""
        return 2.0**-9 if self.has("fp16") else (3 if self.has("rtz") else 1.5) * 2.0**-8

    @property
    def name(self) -> str:
        return self.code.rsplit("/", 1)[1]

    def has(self, part: str) -> bool:
        return part in self.name.removesuffix(".co").split("_")


@dataclass(frozen=True)
class Gradients:
    """Row errors of dQ, dK and dV, and the findings of all launches."""

    errors: tuple[float, float, float]
    findings: list[dict[str, Any]]
    executed: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class _Tensors:
    """The inputs and outputs of a launch; rows are (sequence, head, hdim)."""

    q: Array
    k: Array
    v: Array
    do: Array
    dk: Array
    dv: Array
    dq: Array
    dq_acc: Array
    lse: Array
    delta: Array
    starts: tuple[Array, Array]

    def named(self) -> tuple[dict[str, Array], dict[str, Array]]:
        outputs = {"dq_acc": self.dq_acc, "dq": self.dq, "dk": self.dk, "dv": self.dv}
        inputs = {"q": self.q, "k": self.k, "v": self.v, "do": self.do, "lse": self.lse, "d": self.delta}
        return outputs, inputs | {"seqstart_q": self.starts[0], "seqstart_k": self.starts[1]}


def backward(case: Backward) -> Gradients:
    """Run a case on standard normal inputs."""
    dtype: Any = np.float16 if case.has("fp16") else ml_dtypes.bfloat16
    (hq, hk), d, count = case.heads, case.hdim, len(case.lengths)
    rows, keys = ([n[i] for n in case.lengths] for i in range(2))
    group = case.has("group")
    rng = np.random.default_rng([rows[0], keys[0], hq, d])
    q, do = (rng.standard_normal((sum(rows), hq, d)).astype(dtype) for _ in range(2))
    k, v = (rng.standard_normal((sum(keys), hk, d)).astype(dtype) for _ in range(2))
    starts_q, starts_k = (np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (rows, keys))
    starts = (starts_q, starts_k)
    scale = d**-0.5
    wanted, logs = [], []
    for b in range(count):
        at, of = (slice(s[b], s[b + 1]) for s in starts)
        qb, kb, vb, dob = (x.astype(np.float64).transpose(1, 0, 2) for x in (q[at], k[of], v[of], do[at]))
        kb, vb = np.repeat(kb, hq // hk, 0), np.repeat(vb, hq // hk, 0)
        dq, dk, dv, delta, lse = gradients(qb, kb, vb, dob, scale, causal=case.has("causal"))
        wanted.append((dq, dk, dv))
        logs.append((lse, delta))
    joined = [np.concatenate(x, -1) if group else np.stack(x) for x in zip(*logs, strict=True)]
    dk_out, dv_out = (np.full((sum(keys), hq, d), np.nan, dtype) for _ in range(2))
    lse_in, delta_in = (np.ascontiguousarray(x, np.float32) for x in joined)
    t = _Tensors(q, k, v, do, dk_out, dv_out, np.zeros_like(q), _accumulator(case, dtype), lse_in, delta_in, starts)
    observed = _launch(case, t, scale)
    got = [_dq(case, t), *(x.transpose(1, 0, 2).astype(np.float64) for x in (t.dk, t.dv))]
    errors = [0.0, 0.0, 0.0]
    for b in range(count):
        for n, (start, have, want) in enumerate(zip((starts[0], starts[1], starts[1]), got, wanted[b], strict=True)):
            errors[n] = max(errors[n], _error(have[:, start[b] : start[b + 1]], want))
    findings = [f for one in observed for f in one["findings"]]
    executed = [c for one in observed for c in one["executed"]]
    return Gradients((errors[0], errors[1], errors[2]), findings, executed)


def _error(got: Array, wanted: Array) -> float:
    """The largest |got - wanted| of a row, relative to its norm, or to a tenth of the median norm if that is larger.

    With a causal mask, row 0 of dQ is zero apart from rounding, as is dQ for a single key.
    """
    if not np.isfinite(got).all():
        return float("inf")
    norms = np.linalg.norm(wanted, axis=-1)
    return float((np.linalg.norm(got - wanted, axis=-1) / np.maximum(norms, max(0.1 * np.median(norms), 1e-2))).max())


def _accumulator(case: Backward, dtype: Any) -> Array:
    """dQ's accumulator, zeroed: ``csrc/py_itfs_cu/asm_mha_bwd.cu`` ``fmha_v3_bwd``."""
    rows = [n for n, _ in case.lengths]
    if case.has("group") and case.has("a32"):
        return np.zeros((case.heads[0], sum(rows), case.hdim), np.float32)
    if case.has("a32"):
        return np.zeros((len(rows), case.heads[0], rows[0], case.hdim), np.float32)
    padded = 192 if case.hdim == 192 else 128
    return np.zeros((len(rows), case.heads[0], -(-max(rows) // 16) * 16, padded), dtype)


def _plain(case: Backward) -> bool:
    """The oldest argument struct, ``fmha_bwd_v3_args``."""
    return not any(part.startswith(("ps", "pddv")) for part in case.name.removesuffix(".co").split("_"))


def _launch(case: Backward, t: _Tensors, scale: float) -> list[dict[str, Any]]:
    rows, keys = (max(n[i] for n in case.lengths) for i in range(2))
    (hq, hk), count = case.heads, len(case.lengths)
    log2e = bits(math.log2(math.e))

    def s(array: Array, length: int) -> tuple[int, int, int]:
        """The byte strides between heads, batch entries and rows."""
        return array.strides[1], length * array.strides[0], array.strides[0]

    q, k, v, do, dk, dv = s(t.q, rows), s(t.k, keys), s(t.v, keys), s(t.do, rows), s(t.dk, keys), s(t.dv, keys)
    dq = t.dq if _plain(case) and case.has("a16") else t.dq_acc
    head = [dq, t.dk, t.dv, t.q, t.k, t.v, t.do, t.lse, t.delta]
    tile = case.tile * k[2]
    width = 16
    arguments: list[Argument]
    if _plain(case):
        arguments = [*head, bits(scale), log2e, rows, tile, *q, hq // hk, *k, dk[2]]
    elif case.code.startswith("gfx950") and case.hdim == 128 and not case.has("swa"):
        arguments = [
            *head, bits(scale), log2e, rows, tile, *q, hq // hk, *k, dk[2], keys, case.hdim, case.hdim, hq,
            *v, *do, *dk[:2], *dv, t.lse.shape[-1] * 4, *t.starts, *t.starts,
            rows if case.has("a32") else t.dq_acc.shape[2], 0, 0,
        ]  # fmt: skip
    elif case.has("group"):
        width = 8
        arguments = [
            *head, *t.starts, *t.starts, bits(scale), log2e, hq // hk, t.lse.shape[-1] * 4, int(t.starts[1][-1]),
            q[0], q[2], k[0], k[2], v[0], v[2], do[0], do[2], dk[0], dk[2], dv[0], dv[2], case.hdim,
        ]  # fmt: skip
    else:
        width = 8
        arguments = [
            *head, bits(scale), log2e, hq // hk, rows, keys, case.hdim, hq, *q, *k, *v, *do, *dk, *dv,
        ]  # fmt: skip
    tiles = -(-keys // case.tile)
    grid = ((tiles + 1) // 2 if case.has("causal") else tiles, hq, count)
    outputs, inputs = t.named()
    observed = [run(case.code, grid, 256, slots(arguments, width), outputs, inputs, seed=case.seed, turn=case.turn)]
    if dq is t.dq_acc and not case.has("a32"):
        observed.append(_shuffle(case, t))
    return observed


def _shuffle(case: Backward, t: _Tensors) -> dict[str, Any]:
    """gfx950's last kernel: ``fmha_bwd_dq_shuffle_args``, ``dq_shuffle_traits_``."""
    rows = max(n for n, _ in case.lengths)
    acc, dq = t.dq_acc.strides, t.dq.strides
    arguments: list[Argument] = [
        t.dq_acc, t.dq, 64 * dq[0], acc[1], acc[0], acc[2], dq[1], rows * dq[0], dq[0], rows, case.hdim,
        t.starts[0], t.starts[0], t.dq_acc.shape[2],
    ]  # fmt: skip
    code = f"gfx950/fmha_v3_bwd/bwd_hd{case.hdim}_dq_shuffle{'_group' if case.has('group') else ''}.co"
    grid = (-(-rows // 64), case.heads[0], len(case.lengths))
    outputs, inputs = t.named()
    return run(code, grid, 256, slots(arguments, 16), outputs, inputs, seed=case.seed, turn=case.turn)


def _dq(case: Backward, t: _Tensors) -> Array:
    """dQ (heads, rows of all batch entries, hdim)."""
    if case.has("a32"):
        flat = t.dq_acc if case.has("group") else t.dq_acc.transpose(1, 0, 2, 3).reshape(case.heads[0], -1, case.hdim)
        return flat.astype(np.float64)
    return t.dq.transpose(1, 0, 2).astype(np.float64)
