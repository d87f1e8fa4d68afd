"""The kernels that upstream's example generator emits: the tables' products, pruned by the generator's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from fmha_cli.backends.ck_tile.kernel_rules_generator import GENERATOR_RULES
from fmha_cli.backends.ck_tile.revisions import NAME, arch_class, arch_facts, dtypes_of, generated_dtypes
from fmha_cli.backends.ck_tile.tables import Block, KernelPair, Tables, TileRow, tables_of
from fmha_cli.backends.gpu.conditions import KernelCheck, KernelRule
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import ModeKey, Signature

Rules = Sequence[KernelRule]
_signature, _algorithm = cache(Signature), cache(CkAlgorithm)
"""Equal parts of kernels are one object, also on several architectures: names, digests and JSON are made once for each."""


class Emitted(NamedTuple):
    """A kernel and the profiles it is limited to (empty = it belongs to the general set)."""

    kernel: KernelSpec
    profiles: tuple[str, ...]


def emitted(arch: ArchSpec, family: Family, revision: str, rules: Rules = GENERATOR_RULES) -> Iterator[Emitted]:
    """Every kernel of a family, in upstream's order: type, head dims, mode, tile, pipeline."""
    for spot in _spots(arch, family, revision, rules):
        for pair in spot.admitted():
            yield Emitted(spot.kernel(pair), spot.block.emits[pair.emit].profiles)


@lru_cache(maxsize=64)
def list_emitted(arch: str, family: Family, revision: str) -> tuple[Emitted, ...]:
    """The same kernels, made once; empty for an architecture that has none or is no AMD architecture."""
    facts = arch_facts(arch)
    return tuple(emitted(facts, family, revision)) if facts else ()


def count_emitted(arch: ArchSpec, family: Family, revision: str, rules: Rules) -> int:
    """The number of kernels that ``emitted`` yields. It makes only the few kernels that a rule must check."""
    return sum(sum(1 for _ in spot.admitted()) for spot in _spots(arch, family, revision, rules))


def _spots(arch: ArchSpec, family: Family, revision: str, rules: Rules) -> Iterator[_Spot]:
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
                    yield _Spot(at, mode, tile, block)


def _nest(tables: Tables, tiles: Sequence[TileRow]) -> Iterator[tuple[ModeKey, TileRow]]:
    if tables.tiles_first:
        return ((mode, tile) for tile in tiles for mode in tables.modes)
    return ((mode, tile) for mode in tables.modes for tile in tiles)


class _Place:
    """The kernels of one data type and pair of head dims."""

    def __init__(
        self, arch: ArchSpec, tables: Tables, revision: str, dtype: str, hdims: tuple[int, int], rules: Rules
    ) -> None:
        self.arch, self.family, self.rules, self.revision = arch, tables.family, rules, revision
        names = ("dtype", "dtype_out", "hdim", "hdim_v")
        self.shared = {**tables.constants, **dict(zip(names, (*dtypes_of(dtype), *hdims), strict=True))}


class _Spot:
    """The kernels of one block with one tile in one mode."""

    def __init__(self, place: _Place, mode: ModeKey, tile: TileRow, block: Block) -> None:
        self._place, self._mode, self._tile, self.block = place, mode, tile, block
        self._signatures: dict[int, Signature] = {}
        self._algorithms: dict[int, CkAlgorithm] = {}

    def kernel(self, pair: KernelPair) -> KernelSpec:
        """The kernel of a pair."""
        place, block = self._place, self.block
        algorithm, signature = self._algorithms.get(pair.algorithm), self._signatures.get(pair.signature)
        if algorithm is None:
            part = block.algorithm_parts[pair.algorithm]
            algorithm = _algorithm(**{**self._tile.fields, **part}, rev=place.revision)
            self._algorithms[pair.algorithm] = algorithm
        if signature is None:
            part = block.signature_parts[pair.signature]
            signature = _signature(**{**place.shared, "mode": self._mode, **part})
            self._signatures[pair.signature] = signature
        return KernelSpec(
            backend=NAME,
            family=place.family,
            arch=place.arch.name,
            signature=signature,
            algorithm=algorithm,
        )

    def admitted(self) -> Iterator[KernelPair]:
        """The pairs whose kernels meet every rule. A rule is checked once for all kernels that look the same to it."""
        block, arch, rules = self.block, self._place.arch, self._place.rules
        varied = {*block.axes, "*"}
        fixed = [rule for rule in rules if varied.isdisjoint(rule.reads)]
        free: list[tuple[KernelCheck, Sequence[int], dict[tuple[int, int], bool]]] = [
            (rule.check, block.projection(rule.reads), {}) for rule in rules if not varied.isdisjoint(rule.reads)
        ]
        usable: dict[int, bool] = {}
        for pair in block.pairs:
            emit, point = pair.emit, pair.point
            if emit not in usable:
                kernel = self.kernel(pair)
                usable[emit] = not any(rule.check(kernel, arch) for rule in fixed)
            if not usable[emit]:
                continue
            for check, places, known in free:
                key = (emit, places[point])
                if key not in known:
                    known[key] = check(self.kernel(pair), arch) is None
                if not known[key]:
                    break
            else:
                yield pair


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
