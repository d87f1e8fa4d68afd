"""The forward kernels, as upstream's host code calls them.

Sources: ``csrc/include/mha_fwd.h`` ``fmha_fwd_v3_args``, ``hsa/*/fmha_v3_fwd/codegen.py`` ``fmha_fwd_v3_dispatcher``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_amdgpu_emu_tests.support.anchor_reference import attention, row_error
from fmha_amdgpu_emu_tests.support.assembly_kernels import Argument, bits, describe, run, slots

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Forward:
    """One launch; several lengths mean group mode.

    Attributes:
        code: the code object below ``hsa``.
        lengths: (seqlen_q, seqlen_k) of each batch entry; in batch mode, all are equal.
        heads: of Q, and of K and V.
        hdim: of Q and K, and of V and O.
        turn: the launch option. races: whether the kernel is known for a race (``assembly_cases``).
    """

    code: str
    lengths: tuple[tuple[int, int], ...]
    heads: tuple[int, int] = (2, 2)
    hdim: tuple[int, int] = (128, 128)
    seed: int = 0
    turn: int = 0
    races: bool = False

    @property
    def title(self) -> str:
        return f"{self.code.removesuffix('.co')} {describe(self.lengths)}"

    @property
    def limit(self) -> float:
        """The limit of a row's error: P and O are rounded to bf16, one of them towards zero in ``_rtz`` kernels."""
        return (3 if "_rtz" in self.code else 1.5) * 2.0**-8

    @property
    def causal(self) -> bool:
        return "_causal" in self.code

    @property
    def group(self) -> bool:
        return "_group" in self.code


@dataclass(frozen=True)
class Outcome:
    """Row errors of O, absolute errors of the LSE, findings."""

    error: float
    lse_error: float
    findings: list[dict[str, Any]]
    executed: list[dict[str, Any]]


def forward(case: Forward) -> Outcome:
    """Run a case on standard normal inputs."""
    rng = np.random.default_rng([*case.lengths[0], *case.heads, case.hdim[0]])
    (hq, hk), (dq, dv) = case.heads, case.hdim
    rows, keys = ([n[i] for n in case.lengths] for i in range(2))
    starts = [np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (rows, keys)]
    q, k, v = (
        rng.standard_normal((sum(n), h, d)).astype(ml_dtypes.bfloat16)
        for n, h, d in ((rows, hq, dq), (keys, hk, dq), (keys, hk, dv))
    )
    o = np.full((sum(rows), hq, dv), np.nan, ml_dtypes.bfloat16)
    count, longest = len(rows), max(rows)
    lse = np.full((hq, sum(rows)) if case.group else (count, hq, longest), np.nan, np.float32)
    tile = 128 if dq == 192 else 256
    tune = 3 if case.causal and (hq % 8 or longest > 16384) else 5
    scale = dq**-0.5

    def strides(array: Array, length: int) -> tuple[int, int, int]:
        """The byte strides between rows, heads and batch entries."""
        row, head = array.strides[:2]
        return row, head, 0 if case.group else length * row

    q_s, k_s, v_s, o_s = (strides(a, n) for a, n in ((q, longest), (k, keys[0]), (v, keys[0]), (o, longest)))
    arguments: list[Argument] = [
        o, q, k, v, lse, bits(scale), longest, q_s[0], tile * q_s[0], q_s[1], q_s[2], hq // hk, *k_s, tune, 1,
        max(keys), dq, dv, hq, *v_s, *o_s, starts[0], starts[1], lse.shape[-1] * 4, starts[0], starts[1],
    ]  # fmt: skip
    tiles = -(-longest // tile)
    blocks = (tiles + 1) // 2 if case.causal else tiles
    observed = run(
        case.code,
        (hq, count, blocks) if case.group else (blocks, hq, count),
        256 if dq == 192 else 512,
        slots(arguments, 16),
        {"o": o, "lse": lse},
        {"q": q, "k": k, "v": v, "seqstart_q": starts[0], "seqstart_k": starts[1]},
        seed=case.seed,
        turn=case.turn,
    )
    error, lse_error = 0.0, 0.0
    for b in range(count):
        at, of = (slice(s[b], s[b + 1]) for s in starts)
        wide = [x.astype(np.float64).transpose(1, 0, 2) for x in (q[at], k[of], v[of])]
        want, log_sum, _ = attention(wide[0], wide[1], wide[2], scale, causal=case.causal)
        error = max(error, row_error(o[at].transpose(1, 0, 2).astype(np.float64), want))
        difference = abs((lse[:, at] if case.group else lse[b]) - log_sum)
        lse_error = max(lse_error, float(np.nan_to_num(difference, nan=np.inf).max()))
    return Outcome(error, lse_error, observed["findings"], observed["executed"])
