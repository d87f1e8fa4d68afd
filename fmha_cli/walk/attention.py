"""``attention``: one problem on arrays, as ``fmha run`` would carry it out: chosen, built, run and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.errors import KernelFailure, UnsupportedError, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.tensors import Array
from fmha_cli.report.record import Record
from fmha_cli.walk.dlpack import host_array
from fmha_cli.walk.input_files import InputFiles, flags_from_files
from fmha_cli.walk.request import TENSOR_OF_FLAG, Request
from fmha_cli.walk.run import run_points

_ORIGIN = "(array)"
"""What a record shows in the place of a file's name."""


@dataclass(frozen=True)
class Attention:
    """The outputs of a problem and its record.

    Attributes:
        outputs: numpy arrays by name: o, lse, dq, dk, dv, dbias, those that the problem has. Shapes and layouts are those
            of ``fmha_cli.domain.tensors``; bf16 and fp8 have the types of ``ml_dtypes``.
        record: what ``fmha run --json`` would print. ``record.verdict`` tells whether the outputs are right.
    """

    outputs: Mapping[str, Array]
    record: Record

    @property
    def o(self) -> Array:
        """O.

        Raises:
            KeyError: a backward pass alone has none.
        """
        return self.outputs["o"]

    @property
    def verdict(self) -> Verdict:
        return self.record.verdict


def attention(
    q: object,
    k: object,
    v: object = None,
    *,
    do: object = None,
    tensors: Mapping[str, object] | None = None,
    backend: str = "auto",
    device: str | None = None,
    arch: str | None = None,
    kernel: str | None = None,
    check: bool = True,
    threads: int = 0,
    registry: Registry | None = None,
    **flags: Any,
) -> Attention:
    """Fused attention on arrays by the kernel that ``fmha run`` would choose.

    Args:
        q: (batch, heads, seqlen_q, hdim), or as ``layout`` and ``seqlens_q`` say; a numpy array or any object with
            ``__dlpack__`` in host memory (a ``torch`` tensor on the CPU).
        k: (batch, kv_heads, seqlen_k, hdim) likewise.
        v: (batch, kv_heads, seqlen_k, hdim_v) likewise; None with ``mla_rope``, where V is K's first columns.
        do: (batch, heads, seqlen_q, hdim_v): dQ, dK and dV are computed, and O too.
        tensors: further tensors by name: bias, alibi_slopes, sink_logits, block_table, q_descale, k_descale, v_descale.
        check: compare with the float64 reference; without it, the verdict is UNCHECKED.
        threads: CPU threads of the kernel; 0 = all allowed.
        flags: problem flags under their Python names, with the meaning that they have on the command line: causal=True,
            mask="window:64,0", softcap=30, layout="bshd", lse=True, dropout=0.1, seqlens_q=(3, 5), dtype="bf16" ...

    Raises:
        UsageError: an unknown flag, or a tensor that is not in host memory, has another shape or element type.
        UnsupportedError: no kernel solves this problem; ``why`` names the first reason.
        EnvironmentProblem: no compiler, no such device.
        KernelFailure: the kernel did not build, launch or end.
        KeyboardInterrupt: the user interrupted.
    """
    optional = {"v": v, "do": do}
    named = {"q": q, "k": k, **{n: t for n, t in optional.items() if t is not None}, **(tensors or {})}
    if unknown := sorted(named.keys() - set(TENSOR_OF_FLAG.values())):
        help = ", ".join(sorted(set(TENSOR_OF_FLAG.values()) - {"q", "k", "v", "do"}))
        raise UsageError(f"there is no tensor {unknown[0]}", code="E039", where="tensors", help=help)
    arrays = {name: host_array(value, name) for name, value in named.items()}
    given = InputFiles(arrays, dict.fromkeys(arrays, _ORIGIN))
    raw = {name: value if isinstance(value, bool) else _text(value) for name, value in flags.items()}
    if do is not None:
        raw.setdefault("direction", "fwd+bwd")
    problem = Problem.of(**flags_from_files(raw, given))
    request = Request(
        backend=backend, device=device, arch=arch, kernel=kernel, check=check, threads=threads, peak="spec"
    )
    if request.wanted.several:
        what = f"one kernel computes the outputs, and backend={backend} names several"
        raise UsageError(what, code="E002", where="backend", help="api.run compares backends")
    outputs: dict[str, Array] = {}
    outcome = run_points(
        (problem,),
        request,
        registry or build_registry(),
        given=given,
        on_outputs=lambda index, found: outputs.update(found),
    )
    if outcome.interrupted:
        raise KeyboardInterrupt
    (record,) = outcome.records
    if not outputs:
        raise _failure(record)
    return Attention(outputs, record)


def _text(value: object) -> str:
    """A flag's value as the command line spells it."""
    return ",".join(str(item) for item in value) if isinstance(value, tuple | list) else str(value)


def _failure(record: Record) -> Exception:
    """The error of a row without outputs."""
    why = next(iter((*(reason.text for reason in record.reasons), *record.notes)), None)
    if record.verdict is Verdict.UNSUPPORTED:
        help = "fmha explain lists every candidate and its reasons"
        code = record.reasons[0].id if record.reasons else "K000"
        return UnsupportedError("no kernel solves this problem", code=code, where=record.repro, why=why, help=help)
    return KernelFailure(f"the kernel ended as {record.verdict}", code="X024", where=record.repro, why=why)
