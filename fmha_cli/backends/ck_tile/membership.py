"""Whether upstream's tables contain a kernel: its tile, and a pipeline that is emitted with its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import MappingProxyType
from typing import Any

from fmha_cli.backends.ck_tile.enumeration import tiles_for
from fmha_cli.backends.ck_tile.kernel_rule import class_of
from fmha_cli.backends.ck_tile.revisions import dtype_names
from fmha_cli.backends.ck_tile.tables import Block, Emit, Tables, TileRow, tables_of
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, algorithm_of
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import Signature

_PLACE = ("dtype", "dtype_out", "hdim", "hdim_v", "mode", "rev")
"""Fields that select the rows. They are compared elsewhere."""
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {f.name: f.default for kind in (Signature, CkAlgorithm) for f in fields(kind) if f.default is not MISSING}
)
_ROW_FIELDS = ("tile", "waves", "warp", "occupancy", "constraint", "trload", "max_seq_q")


def tables_for(kernel: KernelSpec) -> Tables | None:
    """The tables of a kernel's family, class and revision, or None if there are none."""
    class_ = class_of(kernel)
    return tables_of(kernel.family, class_, algorithm_of(kernel).rev) if class_ else None


def type_name(kernel: KernelSpec) -> str:
    """Upstream's name for a kernel's types; empty if it has none."""
    return dtype_names().get((kernel.signature.dtype, kernel.signature.dtype_out), "")


def rows_for(kernel: KernelSpec) -> tuple[TileRow, ...]:
    """The tile rows for a kernel's types on its architecture."""
    tables, name = tables_for(kernel), type_name(kernel)
    if tables is None:
        return ()
    rows = tiles_for(tables, class_of(kernel), algorithm_of(kernel).rev)
    return tuple(row for row in rows if name in row.dtypes and (not row.archs or kernel.arch in row.archs))


@cache
def _tile_fields(family: Family, class_: str, revision: str) -> tuple[str, ...]:
    """The fields that the family's tile rows decide; its blocks decide the others."""
    tables = tables_of(family, class_, revision)
    decided = {name for block in tables.blocks for name in (*block.axes, *(k for e in block.emits for k in e.fields))}
    return tuple(name for name in _ROW_FIELDS if name not in decided)


def tile_mismatches(kernel: KernelSpec) -> tuple[str, ...] | None:
    """The fields in which the nearest tile row for the kernel's head dims differs, or None if there is no such row."""
    a = algorithm_of(kernel)
    names = _tile_fields(kernel.family, class_of(kernel), a.rev)
    hdims = (kernel.signature.hdim, kernel.signature.hdim_v)
    found = [
        tuple(name for name in names if row.fields.get(name, _DEFAULTS.get(name)) != getattr(a, name))
        for row in rows_for(kernel)
        if row.hdims == hdims
    ]
    return min(found, key=len, default=None)


def pipeline_mismatches(kernel: KernelSpec) -> tuple[str, ...] | None:
    """The fields in which the nearest emitted pipeline differs, as its ``name=value``; None if there is no pipeline."""
    tables = tables_for(kernel)
    if tables is None:
        return None
    hdims, name = (kernel.signature.hdim, kernel.signature.hdim_v), type_name(kernel)
    values = _values(kernel)
    found = (
        _differences(values, tables, block, emit)
        for block in tables.blocks
        if block.serves(name, hdims)
        for emit in block.emits
    )
    return min(found, key=len, default=None)


def _values(kernel: KernelSpec) -> Mapping[str, Any]:
    a = algorithm_of(kernel)
    skip = (*_PLACE, *_tile_fields(kernel.family, class_of(kernel), a.rev))
    parts = [(f.name, getattr(noun, f.name)) for noun in (kernel.signature, a) for f in fields(noun)]
    return {name: value for name, value in parts if name not in skip}


def _differences(values: Mapping[str, Any], tables: Tables, block: Block, emit: Emit) -> tuple[str, ...]:
    fixed = {**_DEFAULTS, **tables.constants, **emit.fields}
    off = [k for k, v in values.items() if k not in block.axes and fixed.get(k) != v]
    shown = [f"{k}={field_text(fixed[k])}" for k in off]
    mine = {axis: values[axis] for axis in block.axes}
    if tuple(mine.values()) not in block.point_set:
        shown += list(_axis_differences(mine, block))
    elif not emit.at(mine):
        shown += [f"{k}={'|'.join(field_text(v) for v in vs)}" for k, vs in emit.when.items() if mine[k] not in vs]
    return tuple(shown)


def _axis_differences(mine: Mapping[str, Any], block: Block) -> Iterator[str]:
    nearest = min(block.points, key=lambda point: sum(point[k] != v for k, v in mine.items()))
    yield from (f"{k}={field_text(nearest[k])}" for k, v in mine.items() if nearest[k] != v)
