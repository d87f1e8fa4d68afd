"""A sequence alone, and the same sequence elsewhere: in a batch, beside others, in pieces, in longer buffers, in other pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.features import Alibi, CacheKind, CacheStorage, KvCache, Layout, Mode, QScale
from fmha_cli.domain.invariance import BitDifference, Invariance
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import page_count, pages_of, table_width
from fmha_cli.oracle.tensors import Array
from fmha_cli.report.lines import counted
from fmha_cli.run.checks import differing

PLACES = 4
"""The sequences of the batch in which a sequence stands, where the user names no batch."""
_QUERIES = ("q", "o", "do", "dq")
_KEYS = ("k", "v", "dk", "dv")
MOVED = ("o", "lse", "dq", "dk", "dv")
"""The outputs that belong to one sequence."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One change around a sequence.

    Attributes:
        what: the change, for people.
        problem: the problem in which the sequence stands.
        places: where it stands among the sequences.
        rows: its first query and the end of its queries; None for all.
        moved: whether its tensors are others, which hold it among other data.
        threads: of the kernel; None for as many as before.
        units: of the device; None for as many as it has.
    """

    property: Invariance
    what: str
    problem: Problem
    places: tuple[int, ...] = (0,)
    rows: tuple[int, int] | None = None
    moved: bool = True
    threads: int | None = None
    units: int | None = None


def alone_of(problem: Problem) -> tuple[Problem, int]:
    """The problem of one sequence, and its place: the longest of the problem."""
    lengths = list(zip(problem.query_lengths(), problem.key_lengths(), strict=True))
    at = max(range(problem.batch), key=lambda b: lengths[b])
    return beside(
        problem, (lengths[at],), pads=None if problem.cache_leftpad is None else problem.cache_leftpad[at]
    ), at


def beside(problem: Problem, lengths: tuple[tuple[int, int], ...], pads: int | None = None) -> Problem:
    """The problem with sequences of other lengths.

    Args:
        lengths: queries and keys of each sequence; appended keys count.
        pads: left padding of each.
    """
    rows, keys = tuple(q for q, _ in lengths), tuple(k for _, k in lengths)
    cached = problem.cache_seqlens is not None
    group = problem.seqlens_q is not None or len(set(rows)) > 1 or (not cached and len(set(keys)) > 1)
    return replace(
        problem,
        batch=len(lengths),
        seqlen_q=max(rows),
        seqlen_k=max(keys),
        seqlens_q=rows if group else None,
        seqlens_k=keys if group and problem.kv_cache.kind is CacheKind.NONE else None,
        cache_seqlens=tuple(n - problem.append for n in keys) if cached else None,
        cache_leftpad=None if pads is None else (pads,) * len(lengths),
        cache_batch_idx=None,
        storage=CacheStorage(),
    )


def variants_of(property: Invariance, asked: Problem, splits: int, threads: int, units: int) -> Iterator[Variant]:
    """The changes that a property is about.

    Args:
        asked: what the user asks for, with its batch; ``alone_of`` has the sequence.
        splits: of the plan of the sequence alone.
        threads: of its kernel.
        units: of its device.
    """
    alone, at = alone_of(asked)
    q, k = alone.seqlen_q, alone.key_lengths()[0]
    match property:
        case Invariance.BATCH:
            count = asked.batch if asked.batch > 1 else PLACES
            places = tuple(dict.fromkeys((0, count // 2, count - 1)))
            what = f"at places {', '.join(map(str, places))} of a batch of {count}"
            yield Variant(property=property, what=what, problem=beside(alone, ((q, k),) * count), places=places)
        case Invariance.LENGTHS:
            yield _among_others(asked, alone, at)
        case Invariance.CHUNKS:
            cut = max(1, q // 2 - 1)  # no multiple of a tile's rows
            for first, end in ((0, cut), (cut, q)):
                seen = k if alone.mask.right is None else k - q + end
                piece, what = beside(alone, ((end - first, seen),)), f"queries {first} to {end - 1} of {q}"
                yield Variant(property=property, what=what, problem=piece, rows=(first, end))
        case Invariance.PADDING:
            yield _padded(alone, k)
        case Invariance.PAGES:
            pool = CacheStorage(pages=page_count(alone) + 3)
            yield Variant(property=property, what="in other pages", problem=replace(alone, storage=pool))
        case Invariance.SPLITS:
            for count in [n for n in (1, 2, 3) if n != splits and (n > 1 or splits > 1)][:2]:
                what = f"{counted(count, 'split')}, not {splits}"
                yield Variant(property=property, what=what, problem=replace(alone, splits=count), moved=False)
        case Invariance.THREADS:
            others = [
                n for n in dict.fromkeys((1, threads // 2, threads - 1, 2)) if 0 < n <= usable_cores() and n != threads
            ]
            for count in others[:2]:
                what = f"{counted(count, 'thread')}, not {threads}"
                yield Variant(property=property, what=what, problem=alone, moved=False, threads=count)
        case Invariance.UNITS:
            for count in (max(1, units // 3), 2 * units):
                what = f"{counted(count, 'unit')}, not {units}"
                yield Variant(property=property, what=what, problem=alone, moved=False, units=count)
        case Invariance.REPEATS:
            return  # the judge repeats a launch itself


def _among_others(asked: Problem, alone: Problem, at: int) -> Variant:
    """The sequence beside a shorter and a longer one, or where it stands in a batch of several lengths that the user names."""
    q, k = alone.seqlen_q, alone.key_lengths()[0]
    named = list(zip(asked.query_lengths(), asked.key_lengths(), strict=True))
    if len(set(named)) == 1:
        rows = (q, q) if alone.seqlens_q is None and alone.cache_seqlens is not None else (q // 2 + 1, 2 * q)
        named, at = [(rows[0], k // 2 + 1), (q, k), (rows[1], 2 * k)], 1
    others = ", ".join(f"{n} x {m}" for b, (n, m) in enumerate(named) if b != at)
    what = f"beside sequences of {others} queries and keys"
    return Variant(property=Invariance.LENGTHS, what=what, problem=beside(alone, tuple(named)), places=(at,))


def _padded(alone: Problem, keys: int) -> Variant:
    if alone.paged:
        more = CacheStorage(pages=page_count(alone) + 3, table=table_width(alone) + 2)
        padded, what = replace(alone, storage=more), "a table with places that no key uses"
    else:
        rows = keys + keys // 2 + 1
        padded = replace(
            alone,
            kv_cache=KvCache(CacheKind.LINEAR),
            cache_seqlens=(keys,),
            seqlens_k=None,
            storage=CacheStorage(rows=rows),
        )
        what = f"{keys} keys in a buffer of {rows}"
    return Variant(property=Invariance.PADDING, what=what, problem=padded)


def read_part(problem: Problem, name: str, tensors: Mapping[str, Array], b: int) -> Array:
    """The part of a tensor that belongs to a sequence: rows as (heads, rows, d); a view, except of pages."""
    tensor = tensors[name]
    if name in ("k", "v") and problem.paged:
        count, page = problem.key_lengths()[b], problem.kv_cache.page
        pages: Array = tensor[tensors["block_table"][b, : pages_of(count, page)]]
        return pages.reshape(-1, *tensor.shape[2:])[:count].swapaxes(0, 1)
    if name in (*_QUERIES, *_KEYS):
        return _rows_of(problem, name, tensor, b)
    if name == "lse":
        lengths = problem.query_lengths()
        first = sum(lengths[:b])
        return tensor[:, first : first + lengths[b]] if problem.mode is Mode.GROUP else tensor[b, :, : lengths[b]]
    if name == "bias":
        plane: Array = tensor[b if len(tensor) > 1 else 0]
        rows, keys = problem.query_lengths()[b], problem.key_lengths()[b]
        return plane[:, : rows if plane.shape[1] > 1 else 1, : keys if plane.shape[2] > 1 else 1]
    own = (name == "alibi_slopes" and problem.alibi is Alibi.BATCH_HEADS) or (
        name.endswith("_descale") and problem.qscale is QScale.HEAD
    )
    return tensor[b] if own else tensor


def _rows_of(problem: Problem, name: str, tensor: Array, b: int) -> Array:
    lengths = problem.query_lengths() if name in _QUERIES else problem.key_lengths()
    bhsd = problem.layout_of(name) is Layout.BHSD
    if problem.mode is Mode.GROUP and not (name in ("k", "v") and problem.kv_cache.kind is not CacheKind.NONE):
        first = sum(lengths[:b])
        packed = slice(first, first + lengths[b])
        return tensor[:, packed] if bhsd else tensor[packed].swapaxes(0, 1)
    rows: Array = tensor[b] if bhsd else tensor[b].swapaxes(0, 1)
    return rows[:, : lengths[b]]


def write_part(problem: Problem, name: str, tensors: Mapping[str, Array], b: int, value: Array) -> None:
    """Set what ``read_part`` reads."""
    if name in ("k", "v") and problem.paged:
        page, rows = problem.kv_cache.page, value.swapaxes(0, 1)
        for at in range(pages_of(len(rows), page)):
            part = rows[at * page : (at + 1) * page]
            tensors[name][tensors["block_table"][b, at], : len(part)] = part
        return
    read_part(problem, name, tensors, b)[...] = value


def placed(
    variant: Variant, alone: Problem, inputs: Mapping[str, Array], others: Mapping[str, Array]
) -> dict[str, Array]:
    """The inputs of a variant.

    Args:
        inputs: of the sequence alone.
        others: of the variant's problem, filled with other data.
    """
    made = {name: tensor if name == "block_table" else tensor.copy() for name, tensor in others.items()}
    for name in made:
        if name in inputs and name != "block_table":
            part = read_part(alone, name, inputs, 0)
            for at in variant.places:
                write_part(variant.problem, name, made, at, _cut(variant, name, part, at))
    return made


def _cut(variant: Variant, name: str, part: Array, at: int) -> Array:
    """The rows of a sequence's tensor that belong to the variant's piece."""
    if variant.rows is None:
        return part
    first, end = variant.rows
    keys = variant.problem.key_lengths()[at]
    if name in _QUERIES or name == "lse":
        return part[:, first:end]
    if name in _KEYS:
        return part[:, :keys]
    if name == "bias":
        rows = part[:, first:end] if part.shape[1] > 1 else part
        return rows[:, :, :keys] if part.shape[2] > 1 else rows
    return part


def first_difference(
    variant: Variant, alone: Problem, before: Mapping[str, Array], after: Mapping[str, Array]
) -> tuple[BitDifference, int] | None:
    """The first difference between the outputs of the sequence alone and of a variant, and the sequence's place there.

    The index counts in the sequence alone: (head, row, column); of outputs that were not moved, in the tensor.
    """
    if not variant.moved:
        same = differing(before, after, what="differ")
        return (same[0], 0) if same else None
    for at in variant.places:
        sides = [
            {name: _cut(variant, name, read_part(alone, name, before, 0), at) for name in MOVED if name in before},
            {name: read_part(variant.problem, name, after, at) for name in MOVED if name in after},
        ]
        found = differing(sides[0], sides[1], what="differ")
        if found:
            first, offset = found[0], 0 if variant.rows is None else variant.rows[0]
            head, row, *rest = first.index
            return replace(first, index=(head, row + offset, *rest)), at
    return None
