"""``--filter KEY:GLOB[,KEY:GLOB...]`` over kernels: matching only, no expressions are evaluated.

A key is a field of the kernel (backend, family, arch, name, digest, upstream_name), of its signature or
of its algorithm. Globs are ``*``, ``?`` and ``[...]`` over the field's text as in the kernel's name.
Each key must match; a key with several terms matches if one of them does. ``-KEY:GLOB`` excludes
kernels. ``signature.KEY`` and ``algorithm.KEY`` name a field that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from fmha_cli.domain.encode import field_text
from fmha_cli.domain.errors import EmptySelection, UsageError
from fmha_cli.domain.kernel import Algorithm, KernelSpec
from fmha_cli.domain.signature import Signature
from fmha_cli.domain.suggest import NameKind, suggest

KERNEL_KEYS = ("backend", "family", "arch", "name", "digest", "upstream_name")
UpstreamName = Callable[[KernelSpec], str | None]


@dataclass(frozen=True)
class Term:
    """One term: the value of ``key`` must match ``glob``, or must not if ``exclude``."""

    key: str
    glob: str
    exclude: bool = False

    def text(self) -> str:
        return f"{'-' if self.exclude else ''}{self.key}:{self.glob}"


@dataclass(frozen=True)
class Filter:
    """The terms of one selection, in the order given. Made by :func:`parse_filter`."""

    terms: tuple[Term, ...] = ()

    def steps(self) -> Iterator[tuple[Term, ...]]:
        """Terms that are tested together: the inclusions of one key, or a single exclusion."""
        included: dict[str, tuple[Term, ...]] = {}
        for term in self.terms:
            if not term.exclude:
                included[term.key] = (*included.get(term.key, ()), term)
        yield from included.values()
        yield from ((term,) for term in self.terms if term.exclude)

    def first_values(self, key: str, values: Sequence[str], after: Sequence[str] = ()) -> tuple[str, ...]:
        """The values of a key that the filter may let through, judged by its first terms alone.

        If only keys of ``after`` are tested before this key, these are the values that its inclusions match, else all
        values. If none matches, all are returned too, so the filter itself reports what eliminated them."""
        for step in self.steps():
            if step[0].key == key and not step[0].exclude:
                left = tuple(v for v in values if any(fnmatchcase(v, term.glob) for term in step))
                return left or tuple(values)
            if step[0].key not in after:
                break
        return tuple(values)

    def values_of(self, key: str, values: Sequence[str]) -> tuple[str, ...] | None:
        """The values that the filter lets through, if it reads no other key; None if it does."""
        steps = list(self.steps())
        if any(step[0].key != key for step in steps):
            return None
        return tuple(v for v in values if all(fits(step, v) for step in steps))

    def apply(self, kernels: Iterable[KernelSpec], upstream: UpstreamName) -> Iterator[KernelSpec]:
        """The kernels that match, lazily. ``upstream`` gives a kernel's name in its own project.

        Raises:
            EmptySelection: F002, after the last kernel, when none matched: names the eliminating term.
        """
        steps = list(self.steps())
        if not steps:
            yield from kernels
            return
        reached = [0] * (len(steps) + 1)
        for kernel in kernels:
            passed = 0
            while passed < len(steps) and _admits(steps[passed], kernel, upstream):
                passed += 1
            for step in range(passed + 1):
                reached[step] += 1
            if passed == len(steps):
                yield kernel
        if not reached[-1] and reached[0]:
            raise _emptied(steps, reached)


def _emptied(steps: Sequence[tuple[Term, ...]], reached: Sequence[int]) -> EmptySelection:
    at = reached.index(0) - 1
    terms = ",".join(term.text() for term in steps[at])
    before = ",".join(term.text() for step in steps[:at] for term in step)
    after = f" that match {before}" if before else ""
    what = f"--filter {terms} matches none of the {reached[at]:,} kernels{after}"
    return EmptySelection(what, code="F002", where="--filter", help="fmha list-kernels without it prints the values")


def _admits(step: tuple[Term, ...], kernel: KernelSpec, upstream: UpstreamName) -> bool:
    return fits(step, _value(kernel, step[0].key, upstream))


def fits(step: tuple[Term, ...], value: str) -> bool:
    """Whether a value passes terms of one key that are tested together."""
    return any(fnmatchcase(value, term.glob) for term in step) is not step[0].exclude


def _value(kernel: KernelSpec, key: str, upstream: UpstreamName) -> str:
    """The text of a field; empty where this kernel's backend has no such field."""
    if key == "upstream_name":
        return upstream(kernel) or ""
    if key in KERNEL_KEYS:
        return str(getattr(kernel, key))
    part, _, name = key.rpartition(".")
    nouns = {"signature": (kernel.signature,), "algorithm": (kernel.algorithm,)}
    for noun in nouns.get(part, (kernel.signature, kernel.algorithm)):
        if hasattr(noun, name):
            return field_text(getattr(noun, name))
    return ""


def filter_keys(algorithms: Mapping[str, type[Algorithm]]) -> tuple[str, ...]:
    """Every key that a filter may use, for the backends' Algorithm classes."""
    signature = [f.name for f in fields(Signature)]
    algorithm = sorted({f.name for kind in algorithms.values() for f in fields(kind)})
    both = [name for name in algorithm if name in signature]
    dotted = [f"{part}.{name}" for name in both for part in ("signature", "algorithm")]
    return tuple(dict.fromkeys((*KERNEL_KEYS, *signature, *algorithm, *dotted)))


def parse_filter(texts: Sequence[str], algorithms: Mapping[str, type[Algorithm]]) -> Filter:
    """The filter of all ``--filter`` options together.

    Raises:
        UsageError: F001, as :func:`parse_terms`.
    """
    parts = (part for text in texts for part in text.split(","))
    return Filter(parse_terms(parts, filter_keys(algorithms), example="dtype:bf16,-mask:none"))


def parse_terms(texts: Iterable[str], keys: Sequence[str], *, example: str) -> tuple[Term, ...]:
    """One term for each text.

    Raises:
        UsageError: F001, an unknown key (with near keys) or a term without a colon.
    """
    terms = []
    for part in map(str.strip, texts):
        key, colon, glob = part.removeprefix("-").partition(":")
        if not colon or not glob:
            help = f"e.g. {example}"
            raise UsageError(f"--filter {part!r} is not KEY:GLOB", code="F001", where="--filter", help=help)
        if key not in keys:
            what = f"--filter {part}: no such key {key!r}"
            raise UsageError(what, code="F001", where="--filter", help=suggest(key, keys, NameKind.OPTION))
        terms.append(Term(key, glob, exclude=part.startswith("-")))
    return tuple(terms)
