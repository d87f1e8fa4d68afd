"""The kernels that upstream's example generator emits: the tables' products, pruned by the generator's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli.arch import ArchSpec
from fmha_cli.backends.ck_tile.kernel_rule import KernelRule
from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.revisions import NAME, arch_class, dtypes_of, generated_dtypes
from fmha_cli.backends.ck_tile.tables import SIGNATURE_FIELDS, Block, Tables, TileRow, tables_of
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.signature import ModeKey, Signature

Rules = Sequence[KernelRule]


@dataclass(frozen=True)
class Emitted:
    """A kernel, and the only profiles that hold it (empty = the general set)."""

    kernel: KernelSpec
    profiles: tuple[str, ...]


def emitted(arch: ArchSpec, family: Family, revision: str, rules: Rules = GENERATOR_RULES) -> Iterator[Emitted]:
    """Every kernel of a family, in upstream's order: type, head dims, mode, tile, pipeline."""
    class_ = arch_class(arch, family, revision)
    if class_ is None:
        return
    tables = tables_of(family, class_.name, revision)
    tiles = [row for row in tiles_for(tables, class_.name, revision) if not row.archs or arch.name in row.archs]
    relevant = [rule for rule in rules if family in rule.families]
    for dtype in generated_dtypes(family, revision):
        mine = [row for row in tiles if dtype in row.dtypes]
        for hdims in dict.fromkeys(row.hdims for row in mine):
            blocks = [block for block in tables.blocks if block.serves(dtype, hdims)]
            at = _Place(arch, tables, revision, dtype, hdims, relevant)
            for mode, tile in _nest(tables, [row for row in mine if row.hdims == hdims]):
                for block in blocks:
                    yield from at.walk(mode, tile, block)


def _nest(tables: Tables, tiles: Sequence[TileRow]) -> Iterator[tuple[ModeKey, TileRow]]:
    if tables.tiles_first:
        return ((mode, tile) for tile in tiles for mode in tables.modes)
    return ((mode, tile) for mode in tables.modes for tile in tiles)


class _Place:
    """The kernels of one data type and pair of head dims; parts that kernels share are made once."""

    def __init__(
        self, arch: ArchSpec, tables: Tables, revision: str, dtype: str, hdims: tuple[int, int], rules: Rules
    ) -> None:
        self._arch, self._family, self._rules = arch, tables.family, rules
        names = ("dtype", "dtype_out", "hdim", "hdim_v")
        self._signature = {**tables.constants, **dict(zip(names, (*dtypes_of(dtype), *hdims), strict=True))}
        self._revision = revision
        self._signatures: dict[tuple[Any, ...], Signature] = {}
        self._algorithms: dict[tuple[Any, ...], CkAlgorithm] = {}

    def walk(self, mode: ModeKey, tile: TileRow, block: Block) -> Iterator[Emitted]:
        """The kernels of one block with one tile in one mode."""
        fixed = [rule for rule in self._rules if not set(rule.reads) & set(block.axes)]
        free = [(rule, [a for a in block.axes if a in rule.reads]) for rule in self._rules if rule not in fixed]
        verdicts: list[dict[Any, bool]] = [{} for _ in free]
        usable: dict[int, bool] = {}
        for point in block.points:
            for index, emit in enumerate(block.emits):
                if not emit.at(point) or not usable.get(index, True):
                    continue
                kernel = self._kernel({**point, **emit.fields, "mode": mode}, tile)
                if index not in usable:
                    usable[index] = not any(rule.check(kernel, self._arch) for rule in fixed)
                    if not usable[index]:
                        continue
                for (rule, axes), known in zip(free, verdicts, strict=True):
                    key = (index, *[point[axis] for axis in axes])
                    if key not in known:
                        known[key] = rule.check(kernel, self._arch) is None
                    if not known[key]:
                        break
                else:
                    yield Emitted(kernel, emit.profiles)

    def _kernel(self, values: Mapping[str, Any], tile: TileRow) -> KernelSpec:
        ours = {k: v for k, v in values.items() if k in SIGNATURE_FIELDS}
        theirs = {**tile.fields, **{k: v for k, v in values.items() if k not in SIGNATURE_FIELDS}}
        key, other = tuple(ours.items()), tuple(theirs.items())
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._signatures[key] = Signature(**{**self._signature, **ours})
        algorithm = self._algorithms.get(other)
        if algorithm is None:
            algorithm = self._algorithms[other] = CkAlgorithm(**theirs, rev=self._revision)
        return KernelSpec(
            backend=NAME, family=self._family, arch=self._arch.name, signature=signature, algorithm=algorithm
        )


def tiles_for(tables: Tables, class_: str, revision: str) -> Sequence[TileRow]:
    """The family's tiles; for stages of the backward, what its main kernels leave them to do."""
    if tables.tiles_of is None:
        return tables.tiles
    rows = tables_of(tables.tiles_of, class_, revision).tiles
    if tables.family is Family.BWD_CONVERT_DQ:
        rows = tuple(row for row in rows if not row.fields.get("max_seq_q"))
    unique: dict[Any, TileRow] = {}
    for row in rows:
        for keys in _partial_blocks(tables, row):
            tile = TileRow(row.dtypes, row.hdims, {"tile": keys}, row.archs, row.source)
            unique.setdefault((row.dtypes, row.hdims, keys), tile)
    return tuple(unique.values())


def _partial_blocks(tables: Tables, row: TileRow) -> Iterator[tuple[int, ...]]:
    if tables.family is Family.BWD_CONVERT_DQ:
        yield tables.rows_1d, row.fields["tile"][1]
        yield tables.rows_1d, 0
    else:
        yield (tables.rows_1d,)
