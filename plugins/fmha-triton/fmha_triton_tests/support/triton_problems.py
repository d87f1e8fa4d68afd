"""Seeded random problems for the Triton kernels of AMD architectures, each with the kernel that is to run it.

A part of the problems is made to fit a head dim and a type of these kernels; the others are those of the CPU backend's tests
as they are, most of which no kernel here takes. Where more than one kernel fits, every second problem goes to the plugin's own choice, and the others
to a kernel that their text determines.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from random import Random
from typing import Self

from fmha_triton import TritonBackend
from fmha_triton.algorithm import target_of
from fmha_triton.catalogue import algorithm_of, function_of, kernels_of

from fmha_cli import api, plugin
from tests.support.generators.problems import supported

COUNT = 500
ARCHS = ("gfx942", "gfx950", "gfx90a", "gfx1100", "gfx1201")
"""The emulated architectures. Problem ``n`` is decided for the one at ``n`` modulo their number."""
_WIDTHS = (32, 64, 128, 256)
_FITTING = 0.3
_NARROW = 0.25
_EXACT = 0.5
_SPREAD = 10_000
_COMPILED_IN = ("dtype", "mask", "bias", "softcap", "cache", "qscale")


@dataclass(frozen=True)
class Form:
    """What the configurations of the plugin differ in: each is compiled for an architecture by itself."""

    arch: str
    function: str
    hdim: int
    bits: int
    pad: bool

    @classmethod
    def of(cls, kernel: api.KernelSpec) -> Self:
        signature = kernel.signature
        return cls(kernel.arch, function_of(kernel), signature.hdim, signature.dtype.bits, algorithm_of(kernel).pad)


@dataclass(frozen=True)
class Kind:
    """What the kernels of one configuration differ in: a field of the signature with a value."""

    function: str
    field: str
    value: str


Mark = Form | Kind
"""Something that a kernel has, and that some problem is to bring in."""


def marks_of(kernel: api.KernelSpec) -> frozenset[Mark]:
    """The marks of a kernel: its form, and a kind for every field that is compiled in."""
    fields = ((name, getattr(kernel.signature, name).value) for name in _COMPILED_IN)
    return frozenset({Form.of(kernel), *(Kind(function_of(kernel), *field) for field in fields)})


def all_marks() -> frozenset[Mark]:
    """The marks of every kernel of the architectures."""
    return frozenset(mark for arch in ARCHS for kernel in kernels_of(arch) for mark in marks_of(kernel))


@dataclass(frozen=True)
class Assigned:
    """A problem on an architecture, the kernel that runs it (None: refused), and the marks of all kernels of its plan."""

    problem: api.Problem
    arch: str
    kernel: api.KernelSpec | None
    marks: frozenset[Mark] = frozenset()


class AssignedBackend(TritonBackend):
    """Prefers for every problem the kernel that it is assigned. The rules stay as they are."""

    def __init__(self, assigned: Mapping[api.Problem, api.KernelSpec]) -> None:
        super().__init__(driven=False)
        self._assigned = assigned

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterator[api.Decision]:
        for decision in super().decide(problem, device):
            if isinstance(decision, api.Supported):
                first = decision.kernel == self._assigned.get(problem)
                decision = replace(decision, rank=(int(not first), *decision.rank))
            yield decision


@cache
def assigned(n: int) -> Assigned:
    """Problem ``n`` with its kernel. Asserts that a refusal has reasons."""
    arch, rng = ARCHS[n % len(ARCHS)], Random(f"triton problem {n}")
    problem = supported(n)
    if rng.random() < _FITTING:
        bits = 8 if _has(arch, 8) and rng.random() < _NARROW else 16
        problem = _fitted(problem, arch, rng, rng.choice(_WIDTHS), bits, exact=rng.random() < _EXACT) or problem
    fitting = _fitting(problem, arch)
    if not fitting:
        return Assigned(problem, arch, None)
    if n % 2 == 0:
        return _with(problem, arch, min(fitting, key=lambda d: d.rank).kernel)
    form = min({Form.of(d.kernel) for d in fitting}, key=lambda form: _mixed(problem, form))
    kernels = (d.kernel for d in fitting if Form.of(d.kernel) == form)
    return _with(problem, arch, min(kernels, key=lambda kernel: _mixed(problem, kernel.name)))


def drawn() -> tuple[Assigned, ...]:
    """The first ``COUNT`` problems."""
    return tuple(assigned(n) for n in range(COUNT))


@cache
def added() -> tuple[Assigned, ...]:
    """Further problems for the marks that the drawn ones left out by chance."""
    left = set(all_marks() - frozenset().union(*(one.marks for one in drawn())))
    found = []
    for mark in sorted(left, key=repr):
        if mark in left:
            found.append(_for_mark(mark))
            left -= found[-1].marks
    return tuple(found)


def _for_mark(mark: Mark) -> Assigned:
    for n in count(COUNT + zlib.crc32(repr(mark).encode()) % _SPREAD):
        rng = Random(f"{n} {mark}")
        arch, width, bits, exact = rng.choice(ARCHS), rng.choice(_WIDTHS), rng.choice((8, 16)), rng.random() < _EXACT
        if isinstance(mark, Form):
            arch, width, bits, exact = mark.arch, mark.hdim, mark.bits, not mark.pad
        problem = _fitted(supported(n), arch, rng, width, bits, exact=exact) if _has(arch, bits) else None
        for decision in _fitting(problem, arch) if problem else ():
            if mark in (found := _with(problem, arch, decision.kernel)).marks:
                return found
    raise AssertionError("counting ended")


def _has(arch: str, bits: int) -> bool:
    """Whether there are kernels for inputs of so many bits."""
    return bits == 16 or bool(target_of(arch).fp8)


def _fitted(problem: api.Problem, arch: str, rng: Random, width: int, bits: int, *, exact: bool) -> api.Problem | None:
    """The problem with a type and head dims that kernels of a width take, and without what no kernel takes; None if that is impossible."""
    step = 128 // bits
    dims = (
        [width, width] if exact else [step * rng.randint(max(1, width // 2 // step), width // step) for _ in range(2)]
    )
    narrow = rng.choice(list(dict(target_of(arch).fp8))) if bits == 8 else None
    dtype = (narrow or rng.choice(["fp16", "bf16"])).removesuffix("_fnuz")
    words = f"-d {dims[0]} --hdim-v {dims[1]} --dtype {dtype} --fp8-encoding {'fnuz' if narrow and narrow != dtype else 'ocp'}"
    words += f" --qscale {rng.choice(['none', 'tensor', 'head']) if narrow else 'none'}"
    words += " --mla-rope 0 --dropout 0" + (" --append 0 --rotary 0 --kv-dtype same" if problem.cache_seqlens else "")
    with suppress(api.UsageError):
        return api.Problem.from_cli(f"{problem.repro()} {words}")
    return None


def _fitting(problem: api.Problem, arch: str) -> list[api.Supported]:
    """What the plugin supports. Asserts that every refusal has reasons."""
    decisions = list(TritonBackend(driven=False).decide(problem, plugin.DeviceFacts.of_arch(arch)))
    for decision in decisions:
        if isinstance(decision, api.Unsupported):
            assert decision.reasons, problem.repro()
            assert all(reason.id and reason.text for reason in decision.reasons), problem.repro()
    assert decisions, problem.repro()
    return [decision for decision in decisions if isinstance(decision, api.Supported)]


def _with(problem: api.Problem, arch: str, kernel: api.KernelSpec) -> Assigned:
    plan = TritonBackend(driven=False).plan(problem, kernel, plugin.DeviceFacts.of_arch(arch))
    return Assigned(problem, arch, kernel, frozenset().union(*(marks_of(stage.kernel) for stage in plan.stages)))


def _mixed(problem: api.Problem, what: object) -> int:
    """A number that is different for every problem, and the same in every process."""
    return zlib.crc32(f"{problem.repro()} {what}".encode())
