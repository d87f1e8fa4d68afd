"""Upstream's tables as data: tiles and pipelines of each family, architecture class and revision.

``arch_specs/_ck_tile_FAMILY.json`` holds the contents of the loops in ``codegen/ops/*.py``: tile rows, and blocks of
pipelines. A block is a product of axes, with the kernels that each of its points emits, in upstream's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache, cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, get_type_hints

from fmha_cli.backends.ck_tile.revisions import in_revision
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.signature import ModeKey, Signature

SIGNATURE_FIELDS = frozenset(f.name for f in fields(Signature))
ALGORITHM_FIELDS = frozenset(f.name for f in fields(CkAlgorithm))
_KINDS: Mapping[str, Any] = MappingProxyType({**get_type_hints(Signature), **get_type_hints(CkAlgorithm)})
PADS = ("pad_s", "pad_sk", "pad_d", "pad_dv")
"""The fields that the four letters of ``pads`` mean; ``t`` = padded."""
_NOT_FIELDS = ("pads", "when", "profiles")


@dataclass(frozen=True)
class Emit:
    """One kernel that every admitted point of a block emits.

    Attributes:
        fields: the kernel's fields in addition to the point's.
        when: axis -> values for which the kernel is emitted; an axis that is not named does not restrict it.
        profiles: the profiles it is limited to; empty = it belongs to the general set.
    """

    fields: Mapping[str, Any]
    when: Mapping[str, tuple[Any, ...]]
    profiles: tuple[str, ...] = ()

    def at(self, point: Mapping[str, Any]) -> bool:
        """Whether the kernel is emitted at a point."""
        return all(point[axis] in values for axis, values in self.when.items())


@dataclass(frozen=True)
class KernelPair:
    """A point and a kernel that it emits, by number: point, emit, and the parts of signature and algorithm."""

    point: int
    emit: int
    signature: int
    algorithm: int


@dataclass(frozen=True)
class Block:
    """A product of axes, the last one innermost, and the kernels of each point.

    Attributes:
        hdims: the head dims (hdim, hdim_v) to which the block is limited; None = no restriction.
        not_hdims: head dims that the block excludes.
    """

    classes: tuple[str, ...]
    dtypes: tuple[str, ...]
    hdims: tuple[tuple[int, int], ...] | None
    not_hdims: tuple[tuple[int, int], ...]
    points: tuple[Mapping[str, Any], ...]
    axes: tuple[str, ...]
    emits: tuple[Emit, ...]
    source: str

    @cached_property
    def _parted(self) -> tuple[tuple[KernelPair, ...], tuple[Mapping[str, Any], ...], tuple[Mapping[str, Any], ...]]:
        found: list[KernelPair] = []
        parts: tuple[dict[Any, int], dict[Any, int]] = ({}, {})
        for at, point in enumerate(self.points):
            for number, emit in enumerate(self.emits):
                if emit.at(point):
                    values = {**point, **emit.fields}
                    ours = tuple((k, v) for k, v in values.items() if k in SIGNATURE_FIELDS)
                    rest = tuple((k, v) for k, v in values.items() if k not in SIGNATURE_FIELDS)
                    numbers = (
                        index.setdefault(key, len(index)) for index, key in zip(parts, (ours, rest), strict=True)
                    )
                    found.append(KernelPair(at, number, *numbers))
        return tuple(found), tuple(dict(key) for key in parts[0]), tuple(dict(key) for key in parts[1])

    @property
    def pairs(self) -> tuple[KernelPair, ...]:
        """Every point with every kernel that it emits, in upstream's order."""
        return self._parted[0]

    @property
    def signature_parts(self) -> tuple[Mapping[str, Any], ...]:
        """The distinct sets of signature fields among the pairs."""
        return self._parted[1]

    @property
    def algorithm_parts(self) -> tuple[Mapping[str, Any], ...]:
        """The distinct sets of algorithm fields among the pairs."""
        return self._parted[2]

    def projection(self, fields: Sequence[str]) -> tuple[int, ...]:
        """One number per point; points with the same values of ``fields`` (``*`` = all) have the same number."""
        axes = self.axes if "*" in fields else tuple(axis for axis in self.axes if axis in fields)
        if axes not in self._projections:
            seen: dict[tuple[Any, ...], int] = {}
            numbers = (seen.setdefault(tuple([point[a] for a in axes]), len(seen)) for point in self.points)
            self._projections[axes] = tuple(numbers)
        return self._projections[axes]

    @cached_property
    def _projections(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        """The requested projections, by axes: many tiles share a block."""
        return {}

    def serves(self, dtype: str, hdims: tuple[int, int]) -> bool:
        """Whether the block applies to a data type and head dims."""
        return dtype in self.dtypes and (self.hdims is None or hdims in self.hdims) and hdims not in self.not_hdims


@dataclass(frozen=True)
class TileRow:
    """One row of a tile table: fields of the algorithm, and the head dims that it serves.

    Attributes:
        archs: the architectures to which the row is limited; empty = the whole class.
    """

    dtypes: tuple[str, ...]
    hdims: tuple[int, int]
    fields: Mapping[str, Any]
    archs: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Tables:
    """The tables of one family for one class in one revision.

    Attributes:
        tiles_first: upstream loops over tiles outside and over modes inside, not the other way round.
        constants: signature fields that all kernels of the family share.
        tiles_of: for a family without its own tiles, the family whose tiles give the head dims.
        rows_1d: rows per block of such a family.
    """

    family: Family
    modes: tuple[ModeKey, ...]
    tiles_first: bool
    constants: Mapping[str, Any]
    tiles: tuple[TileRow, ...]
    blocks: tuple[Block, ...]
    tiles_of: Family | None
    rows_1d: int


def parse_value(name: str, value: Any) -> Any:
    """A field's value from its JSON form.

    Raises:
        InternalError: neither signatures nor algorithms have a field of that name.
    """
    if isinstance(value, list):
        return tuple(value)
    if name not in SIGNATURE_FIELDS | ALGORITHM_FIELDS:
        raise InternalError(f"tables of CK-Tile: no field {name!r}")
    kind = _KINDS[name]
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value


def _emit(row: Mapping[str, Any]) -> Emit:
    values = {k: parse_value(k, v) for k, v in row.items() if k not in _NOT_FIELDS}
    letters = row.get("pads", "")
    for name, letter in zip(PADS, letters, strict=False):
        values[name] = parse_pad(name, letter == "t")
    when = {k: tuple(parse_value(k, v) for v in vs) for k, vs in row.get("when", {}).items()}
    return Emit(values, when, tuple(row.get("profiles", ())))


def parse_pad(name: str, padded: bool) -> bool | int:
    """A padding in its field's type: a flag along sequences, a number along head dims."""
    return padded if name in PADS[:2] else int(padded)


def _points(axes: Sequence[Sequence[Any]]) -> tuple[Mapping[str, Any], ...]:
    options = []
    for names, values in axes:
        keys = names.split(",")
        rows = values if len(keys) > 1 else [[v] for v in values]
        options.append([{k: parse_value(k, v) for k, v in zip(keys, row, strict=True)} for row in rows])
    return tuple({k: v for part in parts for k, v in part.items()} for parts in product(*options))


def _block(row: Mapping[str, Any], sources: Mapping[str, str]) -> Block:
    pairs = [tuple(tuple(p) for p in row.get(key, ())) for key in ("hdims", "not_hdims")]
    return Block(
        classes=tuple(row["classes"]),
        dtypes=tuple(row["dtypes"]),
        hdims=pairs[0] if "hdims" in row else None,
        not_hdims=pairs[1],
        points=_points(row["axes"]),
        axes=tuple(name for names, _ in row["axes"] for name in names.split(",")),
        emits=tuple(_emit(e) for e in row["emit"]),
        source=sources[row["source"]],
    )


_TILE_FIELDS = ("tile", "waves", "warp", "occupancy", "constraint", "trload", "max_seq_q")


def _tile(row: Mapping[str, Any], sources: Mapping[str, str]) -> TileRow:
    values = {k: parse_value(k, row[k]) for k in _TILE_FIELDS if k in row}
    hdims = (row["hdim"], row["hdim_v"])
    return TileRow(tuple(row["dtypes"]), hdims, values, tuple(row.get("archs", ())), sources[row["source"]])


@cache
def tables_of(family: Family, class_: str, revision: str) -> Tables:
    """The tables of a family for an architecture class in one revision."""
    data = arch_document(f"_ck_tile_{family.value}.json", "fmha.ck-tables/1")
    mine = [
        [row for row in data.get(kind, ()) if class_ in row["classes"] and in_revision(row, revision)]
        for kind in ("tiles", "pipelines")
    ]
    sources = data["sources"]
    return Tables(
        family=family,
        modes=tuple(ModeKey(m) for m in data["modes"]),
        tiles_first=data.get("tiles_first", False),
        constants={k: parse_value(k, v) for k, v in data["constants"].items()},
        tiles=tuple(_tile(row, sources) for row in mine[0]),
        blocks=tuple(_block(row, sources) for row in mine[1]),
        tiles_of=Family(data["tiles_of"]) if "tiles_of" in data else None,
        rows_1d=data.get("rows_1d", 0),
    )
