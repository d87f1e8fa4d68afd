"""``attention``: one problem on arrays, as ``fmha run`` handles it: chosen, built, run and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.arguments import Texts, flag_texts, in_python
from fmha_cli.domain.errors import FmhaError, KernelFailure, UnsupportedError, UsageError
from fmha_cli.domain.features import Direction
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.phases import Tell, silent
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Role, shapes_of
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.tensors import Array, numpy_dtype
from fmha_cli.report.record import Record
from fmha_cli.run.dlpack import as_given
from fmha_cli.run.events import Ended, Judged
from fmha_cli.run.given_arrays import TENSORS, given_tensors, merged
from fmha_cli.run.given_cache import stored
from fmha_cli.run.input_files import InputFiles, flags_from_files
from fmha_cli.run.kept_worker import kept_registry, kept_worker
from fmha_cli.run.logged import logged_voice
from fmha_cli.run.records import Outcome, record_of
from fmha_cli.run.refusals import refuse_misfits, sources_of
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row
from fmha_cli.run.run import Run


@dataclass(frozen=True)
class Attention:
    """The outputs of a problem and its record.

    Attributes:
        outputs: numpy arrays by name: o, lse, dq, dk, dv, dbias, as far as the problem has them; after an append also k
            and v, the caches with the new keys. Shapes and layouts are those of ``fmha_cli.domain.tensors``; bf16 and
            fp8 have the types of ``ml_dtypes``.
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
    like_inputs: bool = False,
    threads: int = 0,
    registry: Registry | None = None,
    phase: Tell = silent,
    **flags: Any,
) -> Attention:
    """Fused attention on arrays by the kernel that ``fmha run`` would choose.

    A tensor is a numpy array, or any object with ``__dlpack__`` in host memory (a ``torch`` tensor on the CPU), of any strides and
    byte order; or the name of a file; or ``"filled"``, which asks for a generated one. A tensor that the problem reads is never
    generated unasked. None is "not given" everywhere. The worker process stays for the next call, and ends with this process.

    Args:
        q: (batch, heads, seqlen_q, hdim), or as ``layout`` and ``seqlens_q`` say. An empty batch, and no queries, give empty outputs
            without a kernel.
        k: (batch, kv_heads, seqlen_k, hdim) likewise. Without keys O is 0 and LSE is -inf.
        v: (batch, kv_heads, seqlen_k, hdim_v) likewise; None with ``mla_rope``, where V is K's first columns.
        do: (batch, heads, seqlen_q, hdim_v): dQ, dK and dV are computed, and O too.
        tensors: further tensors by name; they may also be arguments: bias, alibi_slopes, sink_logits, block_table, k_new, v_new,
            rotary_cos, rotary_sin, q_descale, k_descale, v_descale, and the scales of MX types q_scale, k_scale, v_scale.
        check: compare with the float64 reference; without it, the verdict is UNCHECKED.
        like_inputs: the outputs are tensors of the library of q, as its ``from_dlpack`` makes them, and not numpy arrays.
        threads: CPU threads of the kernel; 0 = all allowed.
        phase: called during work as phase(what, done, total), from any thread; ``phase=print`` shows the two minutes in which an
            emulator is built. The logger ``fmha`` has the same at level INFO, every two seconds.
        flags: problem flags under their Python names, with the meaning that they have on the command line: causal=True,
            mask="window:64,0", scale=0.125, layout="bshd", lse=True, dropout=0.1, seqlens_q=(3, 5), dtype="bf16" ... Lists of
            lengths may be arrays.

    Raises:
        UsageError: an unknown argument, or a tensor that is missing, is not in host memory, has another shape or element type.
        UnsupportedError: no kernel solves this problem; ``why`` names the first reason.
        EnvironmentProblem: no compiler, no such device.
        KernelFailure: the kernel did not build, launch or end.
        KeyboardInterrupt: the user interrupted.
    """
    try:
        given, texts, raw = read_call({"q": q, "k": k, "v": v, "do": do}, {"tensors": tensors, **flags})
        request = Request(
            backend=backend,
            device=device,
            arch=arch,
            kernel=kernel,
            check=check,
            threads=threads,
            peak="spec",
            files=texts,
        )
        refuse_several(request)
        done = _attention(raw, given, request, registry or kept_registry(), phase)
        return replace(done, outputs=as_given(done.outputs, q)) if like_inputs else done
    except FmhaError as fault:
        in_python(fault)
        raise


def read_call(
    values: Mapping[str, object], more: Mapping[str, Any], base: Mapping[str, str | bool] = MappingProxyType({})
) -> tuple[InputFiles, dict[str, str], Texts]:
    """The tensors of a call, the texts among them, and its flags.

    Args:
        values: q, k, v and do.
        more: further tensors, those in ``tensors`` too, and flags. A text for ``bias`` is its kind, which has the tensor's name.
        base: flags that those of the call replace.

    Raises:
        UsageError: see ``merged``, ``given_tensors`` and ``flag_texts``.
    """
    own = {n: x for n, x in more.items() if n in TENSORS and not (n == "bias" and isinstance(x, str))}
    given, texts = given_tensors(merged(more.get("tensors") or {}, {**values, **own}))
    raw = {**base, **flag_texts({n: x for n, x in more.items() if n not in own and n != "tensors"})}
    raw |= {name: text for name, text in texts.items() if name in BY_KEY}
    if values["do"] is not None:
        raw.setdefault("direction", Direction.FWD_BWD.value)
    return given, texts, raw


def refuse_several(request: Request) -> None:
    """Raises UsageError: E002, several backends, of which one computes the outputs."""
    if request.wanted.several:
        what = f"one kernel computes the outputs, and backend={request.backend} names several"
        raise UsageError(what, code="E002", where="backend", help="api.run compares backends")


def _attention(raw: Texts, given: InputFiles, request: Request, registry: Registry, phase: Tell) -> Attention:
    problem, empty = call_problem(raw, given)
    if empty:
        return empty_attention(stored(problem, given.arrays), empty, given, request, registry)
    outputs: dict[str, Array] = {}
    records: tuple[Record, ...] = ()
    with (
        kept_worker() as share,
        Run((problem,), request, registry, given=given, share=share, voice=logged_voice(phase)) as run,
    ):
        for event in run:
            match event:
                case Judged():
                    outputs.update(event.outputs)
                case Ended(interrupted=True):
                    raise KeyboardInterrupt
                case Ended():
                    records = event.records
    (record,) = records
    if not outputs:
        raise failure_of(record)
    return Attention(outputs, record)


def call_problem(raw: Texts, given: InputFiles) -> tuple[Problem, set[str]]:
    """The problem of a call without the extents of its caches, and those of its axes ``batch`` and ``seqlen`` that are empty, which
    count as 1 in it.

    Raises:
        UsageError, UnsupportedError: see ``flags_from_files`` and ``Problem.from_raw``.
    """
    appends = "append" in raw or "k_new" in given.arrays  # which a kernel does, also for no query
    flags = flags_from_files(raw, given, may_be_empty=not appends)
    empty = {key for key in ("batch", "seqlen") if flags.get(key) == "0"}
    return Problem.from_raw({**flags, **dict.fromkeys(empty, "1")}), empty


def empty_attention(
    problem: Problem, axes: set[str], given: InputFiles, request: Request, registry: Registry
) -> Attention:
    """The outputs of an empty batch, or of no queries: O, LSE and dQ have no elements, and no query reaches dK, dV and dBias."""
    if "batch" in axes:
        problem = replace(problem, batch=0, cache_seqlens=None if problem.cache_seqlens is None else ())
    if "seqlen" in axes:
        problem = replace(problem, seqlen_q=0)
    wanted_backends(registry, request.wanted)
    refuse_misfits((problem,), given)
    shapes = {name: shape for name, shape in shapes_of(problem).items() if shape.role is Role.OUTPUT}
    outputs = {name: np.zeros(shape.shape, numpy_dtype(shape.dtype)) for name, shape in shapes.items()}
    row = Row(group=0, problem=problem, choice=None, plan=None)
    note = f"{'the batch is empty' if 'batch' in axes else 'there are no queries'}: no kernel ran"
    outcome = Outcome(verdict=Verdict.PASSED if request.check else Verdict.UNCHECKED, notes=(note,))
    return Attention(outputs, record_of(row, outcome, request, registry, sources_of(problem, given)))


def failure_of(record: Record) -> Exception:
    """The error of a row without outputs."""
    why = next(iter((*(reason.text for reason in record.reasons), *record.notes)), None)
    if record.verdict is Verdict.UNSUPPORTED:
        help = "fmha explain lists every candidate and its reasons"
        code = record.reasons[0].id if record.reasons else "K000"
        return UnsupportedError("no kernel solves this problem", code=code, where=record.repro, why=why, help=help)
    return KernelFailure(f"the kernel ended as {record.verdict}", code="X024", where=record.repro, why=why)
