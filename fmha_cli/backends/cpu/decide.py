"""Which CPU kernels serve a problem, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.backends.cpu.kernels import BACKEND, algorithm_of, cpu_kernels
from fmha_cli.backends.cpu.rules import CPU_RULES, group_rows
from fmha_cli.backends.cpu.stages import plan_of
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.passes import TwoPasses
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import reasons_against

DECODE_QUERIES = 16
"""Up to this sequence length a decode kernel is the faster one where it fits (results/cpu_kernels.md#decode)."""


def _decide(problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
    """The decision about every kernel, for a problem of one direction."""
    rows = max(problem.query_lengths(), default=0)
    few = rows <= DECODE_QUERIES
    before: dict[LoopKind, str] = {}  # the first architecture whose kernel of a kind fits
    for place, arch, kernel in _in_order(problem, tuple(a for a in device.archs if a in ARCHS)):
        reasons = reasons_against(CPU_RULES, problem, kernel, device)
        if reasons:
            yield Unsupported(BACKEND, arch, kernel, tuple(reasons))
            continue
        kind = algorithm_of(kernel).kind
        ahead = before.setdefault(kind, arch)
        first = None if ahead == arch else ahead
        if kind in _ALONE:
            yield Supported(kernel, (0, place), _late(first) if first else f"the architecture's {_ALONE[kind]}")
        else:
            decode = kind is LoopKind.DECODE
            note = _note(rows, decode=decode, few=few, first=first)
            yield Supported(kernel, (int(decode is not few), place), note)


DECODE_ORDER = "decode_order"
"""The fact of an architecture that says which architectures' decode kernels are the fastest on its processors, if those are not its
own and then the next ones: lists for each type of K and V, and the query rows of a key/value head from which each counts."""


def _in_order(problem: Problem, archs: tuple[str, ...]) -> Iterator[tuple[int, str, KernelSpec]]:
    """An architecture's place among those of the device, its name, and one of its main kernels. Backward kernels come last."""
    for order, chosen in ((archs, _PREFILL), (_streaming(problem, archs), _DECODE), (archs, (LoopKind.BACKWARD,))):
        for place, arch in enumerate(order):
            for kernel in cpu_kernels(load_arch(arch)):
                if algorithm_of(kernel).kind in chosen:
                    yield place, arch, kernel


def _streaming(problem: Problem, archs: tuple[str, ...]) -> tuple[str, ...]:
    """The order of the architectures by their decode kernels."""
    best = load_arch(archs[0]) if archs else None
    if best is None or DECODE_ORDER not in best.facts:
        return archs
    bits = "8-bit" if problem.kv_bits == 8 else problem.dtype.value
    rows = group_rows(problem)
    for row in best.fact(DECODE_ORDER):
        if row["keys"] == bits and rows >= row["from_rows"]:
            ahead = [arch for arch in row["archs"] if arch in archs]
            return (*ahead, *(arch for arch in archs if arch not in ahead))
    return archs


_PREFILL, _DECODE = (LoopKind.PREFILL,), (LoopKind.DECODE, LoopKind.SPLIT)
"""Kinds of main kernels of the forward pass. Combine and append kernels are stages around others."""


_ALONE = {LoopKind.BACKWARD: "backward kernel", LoopKind.SPLIT: "kernel for split keys, a combine kernel after it"}
"""Kinds whose kernels no other kind of the architecture competes with."""

PASSES = TwoPasses(_decide, plan_of)
"""Backward kernels read O and LSE where forward kernels leave them, so every pair of kernels is possible."""
decide, plan = PASSES.decide, PASSES.plan


def _late(first: str) -> str:
    return f"not the first choice: kernels for {first} come first here"


def _note(rows: int, *, decode: bool, few: bool, first: str | None) -> str:
    """The reason for a kernel's rank. ``first`` names the architecture that comes before the kernel's, if one does."""
    late = [f"kernels for {first} come first here"] if first else []
    seen = "1 query row" if rows == 1 else f"{rows} query rows"
    if decode is few:
        kind = "a decode kernel streams K and V once" if decode else "in a prefill kernel many rows share each key"
        return _late(first) if first else f"{seen}: {kind}"
    late.append(f"a {'decode' if few else 'prefill'} kernel is faster for {seen}")
    return f"not the first choice: {' and '.join(late)}"
