"""The kernels that upstream's example generator emits: the tables' products, pruned by the generator's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.revisions import NAME, arch_class, dtypes_of, generated_dtypes
from fmha_cli.backends.ck_tile.tables import Block, Tables, TileRow, tables_of
from fmha_cli.backends.gpu.conditions import KernelRule
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import ModeKey, Signature

Rules = Sequence[KernelRule]


@dataclass(frozen=True)
class Emitted:
    """A kernel and the profiles it is limited to (empty = it belongs to the general set)."""

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
    """The kernels of one data type and pair of head dims. Parts that kernels share are made once."""

    def __init__(
        self, arch: ArchSpec, tables: Tables, revision: str, dtype: str, hdims: tuple[int, int], rules: Rules
    ) -> None:
        self._arch, self._family, self._rules = arch, tables.family, rules
        names = ("dtype", "dtype_out", "hdim", "hdim_v")
        self._shared = {**tables.constants, **dict(zip(names, (*dtypes_of(dtype), *hdims), strict=True))}
        self._revision = revision
        self._signatures: dict[tuple[int, ModeKey], list[Signature]] = {}

    def walk(self, mode: ModeKey, tile: TileRow, block: Block) -> Iterator[Emitted]:
        """The kernels of one block with one tile in one mode."""
        fixed = [rule for rule in self._rules if not set(rule.reads) & set(block.axes)]
        free = [(rule, block.projection(rule.reads)) for rule in self._rules if rule not in fixed]
        verdicts: list[dict[tuple[int, int], bool]] = [{} for _ in free]
        usable: dict[int, bool] = {}
        signatures = self._of_block(mode, block)
        algorithms = [CkAlgorithm(**{**tile.fields, **part}, rev=self._revision) for part in block.algorithm_parts]
        for pair in block.pairs:
            if not usable.get(pair.emit, True):
                continue
            kernel = KernelSpec(
                backend=NAME,
                family=self._family,
                arch=self._arch.name,
                signature=signatures[pair.signature],
                algorithm=algorithms[pair.algorithm],
            )
            if pair.emit not in usable:
                usable[pair.emit] = not any(rule.check(kernel, self._arch) for rule in fixed)
                if not usable[pair.emit]:
                    continue
            for (rule, places), known in zip(free, verdicts, strict=True):
                key = (pair.emit, places[pair.point])
                if key not in known:
                    known[key] = rule.check(kernel, self._arch) is None
                if not known[key]:
                    break
            else:
                yield Emitted(kernel, block.emits[pair.emit].profiles)

    def _of_block(self, mode: ModeKey, block: Block) -> list[Signature]:
        key = (id(block), mode)
        if key not in self._signatures:
            shared = {**self._shared, "mode": mode}
            self._signatures[key] = [Signature(**{**shared, **part}) for part in block.signature_parts]
        return self._signatures[key]


def tiles_for(tables: Tables, class_: str, revision: str) -> Sequence[TileRow]:
    """The family's tiles. For stages of the backward, the tiles follow from those of its main kernels."""
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
