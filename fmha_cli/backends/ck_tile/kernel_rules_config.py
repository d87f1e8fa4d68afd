"""Rules over any kernel: whether the tables of upstream's generator contain it, its tile, and a pipeline with its features.

A refusal names the fields in which the nearest row of the tables differs. The generator's own conditions are in
``kernel_rules_generator``; together they admit exactly the kernels that it emits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import MappingProxyType
from typing import Any

from fmha_cli.backends.ck_tile.enumeration import tiles_for
from fmha_cli.backends.ck_tile.kernel_rule import (
    BACKWARD_ALL,
    LENGTHS,
    NO_ARCH,
    class_of,
    counted,
)
from fmha_cli.backends.ck_tile.revisions import (
    NAME,
    arch_class,
    dtype_names,
    dtypes_of,
    generated_dtypes,
    in_revision,
    revisions,
)
from fmha_cli.backends.ck_tile.tables import Block, Emit, Tables, TileRow, tables_of
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import dtypes_text
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal
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


def _types(kernel: KernelSpec) -> str:
    return dtypes_text(kernel.signature.dtype, kernel.signature.dtype_out)


def _revision(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    names = [r.name for r in revisions()]
    rev = algorithm_of(kernel).rev
    return None if rev in names else Refusal(f"revision {rev}", f"one of {', '.join(names)}")


def _arch(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    rev = algorithm_of(kernel).rev
    if any(arch_class(arch, family, rev) for family in Family):
        return None
    having = [r.name for r in revisions() if any(arch_class(arch, family, r.name) for family in Family)]
    return Refusal(f"revision {rev} has nothing for {arch.name}", f"rev={having[0]}" if having else None)


def _family(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    rev = algorithm_of(kernel).rev
    if class_of(kernel) or _arch(kernel, arch):
        return None
    return Refusal(f"revision {rev} has no {kernel.family.value} kernels for {arch.name}")


def _dtype_rows(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if not class_of(kernel) or rows_for(kernel):
        return None
    return Refusal(f"no tile of {_types(kernel)} in the tables of {class_of(kernel)}")


def _dtype_generated(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    names = generated_dtypes(kernel.family, algorithm_of(kernel).rev)
    if type_name(kernel) in names:
        return None
    known = ", ".join(dtypes_text(*dtypes_of(name)) for name in names)
    return Refusal(f"upstream generates no {_types(kernel)} for {kernel.family.value}", f"one of {known}")


def _pipeline(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    rows = [row for row in arch.backends.get(NAME, {}).get("pipelines", ()) if in_revision(row, a.rev)]
    able = [name for row in rows for name in row["names"]]
    wanted = Pipeline.BWD.value if kernel.family in BACKWARD_ALL else a.pipeline.value
    if not rows or wanted in able:
        return None
    return Refusal(f"{wanted} does not work on {arch.name}", f"one of {', '.join(able)}")


def _lengths(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, wanted = algorithm_of(kernel), LENGTHS[kernel.family]
    have = (len(a.tile), len(a.waves), len(a.warp))
    if have == wanted:
        return None
    return Refusal(f"tile, waves and warp have {have} numbers, {kernel.family.value} kernels {wanted}")


def _counts(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    numbers = counted(kernel)
    return None if min(numbers, default=1) > 0 else Refusal("a tile, wave or warp number below 1", "1 or more")


def _tile(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if not rows_for(kernel):
        return None
    off, s = tile_mismatches(kernel), kernel.signature
    if off is None:
        hdims = dict.fromkeys(f"{a}/{b}" for a, b in (row.hdims for row in rows_for(kernel)))
        return Refusal(f"no tile of head dims {s.hdim}/{s.hdim_v}", f"one of {', '.join(hdims)}")
    return Refusal(f"upstream has no tile row with this {', '.join(off)}") if off else None


def _emitted(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    tables = tables_for(kernel)
    if tables is None or not rows_for(kernel):
        return None
    if kernel.signature.mode not in tables.modes:
        return Refusal(f"{kernel.signature.mode.value} mode", f"one of {', '.join(m.value for m in tables.modes)}")
    off = pipeline_mismatches(kernel)
    if off is None:
        return Refusal(f"upstream has no pipeline for {_types(kernel)} here")
    return Refusal("upstream emits no pipeline with these features", ", ".join(off)) if off else None


CONFIG_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K200": _revision,
        NO_ARCH: _arch,
        "K202": _family,
        "K203": _dtype_rows,
        "K204": _dtype_generated,
        "K205": _dtype_generated,
        "K206": _pipeline,
        "K214": _lengths,
        "K217": _counts,
        "K249": _tile,
        "K250": _emitted,
    },
)
