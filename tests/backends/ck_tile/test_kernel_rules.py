"""Rules over kernels: listed kernels satisfy them, unlisted kernels are refused, and each rule can refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.catalogue import buildable_kernels, family_kernels
from fmha_cli.backends.ck_tile.enumeration import emitted, tiles_for
from fmha_cli.backends.ck_tile.kernel_rules import ALL, KERNEL_RULES, refusals
from fmha_cli.backends.ck_tile.revisions import NAME, arch_class, arch_facts, dtypes_of, generated_dtypes
from fmha_cli.backends.ck_tile.tables import SIGNATURE_FIELDS, Block, Emit, Tables, TileRow, tables_of
from fmha_cli.backends.gpu.known_bad import known_bad
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline, VLayout
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import ModeKey, Need, Signature
from tests.support.generators.ck_tile.mutations import PLACES, SOME_PLACES, Place, mutations, sampled
from tests.support.generators.ck_tile.planted_kernels import FWD, PLANTED, ck_kernel

BY_ID = {rule.id: rule for rule in ALL}


@cache
def listed(revision: str, arch: str, family: Family) -> frozenset[KernelSpec]:
    return frozenset(family_kernels(load_arch(arch), family, revision))


def refused(kernel: KernelSpec) -> list[str]:
    """The ids of the reasons against a kernel, without those of its architecture."""
    return [reason.id for reason in refusals(kernel) if BY_ID[reason.id].stage != "target"]


def test_ids_are_unique_and_in_the_range_of_kernels() -> None:
    assert len(BY_ID) == len(ALL) == len(KERNEL_RULES)
    assert all("K200" <= rule.id <= "K299" for rule in ALL)
    assert all(rule.text and rule.help and rule.source and rule.families and rule.reads for rule in ALL)


def test_reads_name_fields() -> None:
    names = {f.name for kind in (Signature, CkAlgorithm) for f in fields(kind)} | {"*"}
    assert {name for rule in ALL for name in rule.reads} <= names


def test_buildable_kernels_pass_their_own_rules() -> None:
    for kernel in sampled(Random(20), 6, SOME_PLACES):
        assert refused(kernel) == [], kernel.name


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_buildable_kernels_pass_their_own_rules() -> None:
    for revision, arch, family in PLACES:
        for kernel in buildable_kernels(load_arch(arch), family, revision):
            assert refusals(kernel) == (), kernel.name


def _near(seed: int, count: int, share: float, places: Sequence[Place]) -> None:
    """Look at a share of the kernels near kernels of these places. Problems that fall on other places with kernels are
    left out, because a place's set of kernels takes time.
    """
    rng, seen = Random(seed), 0
    for kernel in sampled(rng, count, places):
        for field, other in mutations(kernel):
            place = (other.algorithm.rev, other.arch, other.family)  # type: ignore[attr-defined]
            if rng.random() > share or (place in PLACES and place not in places):
                continue
            seen += 1
            known = place in PLACES and other in listed(*place)
            against = refusals(other)
            assert known or against, f"{field}: {other.name} exists nowhere and no rule refuses it"
            if known:
                assert refused(other) == [], other.name
            assert all(reason.text for reason in against)
    assert seen > 1000


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_with_one_field_changed_exists_or_is_refused() -> None:
    _near(seed=5, count=2, share=0.15, places=SOME_PLACES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_near_kernels_exist_or_are_refused_at_length() -> None:
    _near(seed=6, count=40, share=1.0, places=PLACES)


@dataclass(frozen=True)
class Product:
    """Every combination of tile, pipeline, point, type and mode in the tables of a class, intended or not."""

    arch: str
    tables: Tables
    revision: str
    tiles: tuple[TileRow, ...]
    dtypes: tuple[str, ...]

    def kernel(self, tile: TileRow, dtype: str, mode: ModeKey, block: Block, at: int, emit: Emit) -> KernelSpec:
        names = dict(zip(("dtype", "dtype_out", "hdim", "hdim_v"), (*dtypes_of(dtype), *tile.hdims), strict=True))
        values = {**self.tables.constants, **block.points[at], **emit.fields, **names, "mode": mode}
        ours = {k: v for k, v in values.items() if k in SIGNATURE_FIELDS}
        theirs = {k: v for k, v in values.items() if k not in SIGNATURE_FIELDS}
        return KernelSpec(
            backend=NAME,
            family=self.tables.family,
            arch=self.arch,
            signature=Signature(**ours),
            algorithm=CkAlgorithm(**{**tile.fields, **theirs}, rev=self.revision),
        )

    def all(self) -> Iterator[KernelSpec]:
        for tile, dtype, mode, block in product(self.tiles, self.dtypes, MODES, self.tables.blocks):
            for at, emit in product(range(len(block.points)), block.emits):
                yield self.kernel(tile, dtype, mode, block, at, emit)

    def drawn(self, rng: Random, count: int) -> Iterator[KernelSpec]:
        for _ in range(count):
            block = rng.choice(self.tables.blocks)
            tile, dtype, mode = rng.choice(self.tiles), rng.choice(self.dtypes), rng.choice(MODES)
            yield self.kernel(tile, dtype, mode, block, rng.randrange(len(block.points)), rng.choice(block.emits))


MODES = (ModeKey.BATCH, ModeKey.GROUP)


def product_of(revision: str, arch: str, family: Family) -> Product | None:
    class_ = arch_class(load_arch(arch), family, revision)
    if class_ is None:
        return None
    tables = tables_of(family, class_.name, revision)
    tiles = tuple(tiles_for(tables, class_.name, revision))
    return Product(arch, tables, revision, tiles, (*generated_dtypes(family, revision), "bf8"))


def _agree(kernels: Iterable[KernelSpec], known: frozenset[KernelSpec]) -> tuple[int, set[KernelSpec]]:
    """Assert that the rules admit exactly the listed kernels. Returns the number checked and the admitted ones."""
    found, asked = set(), 0
    for kernel in kernels:
        asked += 1
        against = refused(kernel)
        assert (against == []) == (kernel in known), (kernel.name, against)
        if not against:
            found.add(kernel)
    return asked, found


@pytest.mark.slow
@pytest.mark.ci
def test_the_rules_make_the_listed_set_out_of_the_tables_product() -> None:
    for family in (Family.FWD_APPENDKV, Family.FWD_SPLITKV_COMBINE, Family.BWD_DOT_DO_O, Family.BWD_CONVERT_DQ):
        whole, known = product_of("baseline", "gfx942", family), listed("baseline", "gfx942", family)
        assert whole is not None
        asked, found = _agree(whole.all(), known)
        assert found == known
        assert asked > len(known)


@pytest.mark.slow
@pytest.mark.ci
def test_the_rules_agree_with_the_lists_on_drawn_products() -> None:
    rng, asked, admitted = Random(9), 0, 0
    for revision, arch, family in SOME_PLACES:
        whole = product_of(revision, arch, family)
        if whole is not None:
            tried, found = _agree(whole.drawn(rng, 80), listed(revision, arch, family))
            asked, admitted = asked + tried, admitted + len(found)
    assert asked > 2500
    assert admitted > 100


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("revision", "arch", "family"), PLACES)
def test_the_rules_make_the_whole_listed_set(revision: str, arch: str, family: Family) -> None:
    whole, known = product_of(revision, arch, family), listed(revision, arch, family)
    assert (whole is None) == (not known)
    if whole is not None:
        assert _agree(whole.all(), known)[1] == known


@pytest.mark.slow
@pytest.mark.ci
def test_the_enumerator_prunes_with_the_table_s_own_rules() -> None:
    """Without one of the generator's rules more kernels are enumerated, and only that rule refuses the extra ones."""
    arch = load_arch("gfx950")
    for id, family, revision in (
        ("K271", Family.FWD, "baseline"),
        ("K272", Family.FWD, "baseline"),
        ("K273", Family.FWD_SPLITKV, "baseline"),
        ("K286", Family.BWD_DQ_DK_DV, "baseline"),
        ("K287", Family.BWD_DQ_DK_DV, "baseline"),
        ("K288", Family.BWD_DQ_DK_DV, "baseline"),
        ("K285", Family.BATCH_PREFILL, "2026-08"),
    ):
        fewer = [r for r in ALL if r.stage == "generator" and r.id != id]
        more = {e.kernel for e in emitted(arch, family, revision, fewer)} - listed(revision, "gfx950", family)
        assert more, id
        assert {tuple(refused(kernel)) for kernel in list(more)[:50]} == {(id,)}, id


@pytest.mark.parametrize(
    "places", [pytest.param(SOME_PLACES, id="some"), pytest.param(PLACES, id="all", marks=pytest.mark.slow)]
)
def test_rules_read_what_they_say_they_read(places: Sequence[Place]) -> None:
    """A field that a rule does not name never changes its verdict, so the enumerator checks all its values at once."""
    rules = [rule for rule in ALL if "*" not in rule.reads]
    for kernel in sampled(Random(3), 1, places):
        arch = arch_facts(kernel.arch)
        assert arch is not None
        mine = [rule for rule in rules if kernel.family in rule.families]
        before = {rule.id: rule.against(kernel, arch) is None for rule in mine}
        for field, other in mutations(kernel):
            if field in ("family", "arch", "tile", "waves", "warp", "rev"):
                continue  # may change the form or the class
            changed = [r.id for r in mine if field not in r.reads and (r.against(other, arch) is None) != before[r.id]]
            assert not changed, (field, other.name)


@pytest.mark.parametrize("id", sorted(PLANTED))
def test_a_planted_fault_is_refused_by_its_rule(id: str) -> None:
    assert id in [reason.id for reason in refusals(PLANTED[id])]


@pytest.mark.parametrize(
    ("changed", "told", "nearest"),
    [
        ({"dtype": DType.FP8_E5M2, "dtype_out": DType.FP8_E5M2}, "dtype fp8_e5m2, dtype_out fp8_e5m2", "dtype bf16"),
        ({"tile": ()}, "tile ", "tile 128x128x32x128x32x128"),
        ({"waves": (0, 1, 1, 4, 1, 1)}, "waves 0x1x1x4x1x1", "waves 4x1x1x4x1x1"),
        ({"tile": (128, 128, 32, 128, 64, 128)}, "tile 128x128x32x128x64x128", "tile 128x128x32x128x32x128"),
    ],
)
def test_a_kernel_outside_of_the_tables_is_refused_with_the_nearest_listed_one(
    changed: dict[str, Any], told: str, nearest: str
) -> None:
    kernel = ck_kernel(FWD, **changed)
    (reason,) = refusals(kernel)
    assert reason.id == "K250"
    assert reason.text.startswith(told)
    assert reason.hint is not None
    assert reason.hint.startswith(nearest)


def test_steps_of_gfx125_in_8_bits() -> None:
    eight = [k for k in listed("2026-08", "gfx1250", Family.FWD) if k.signature.dtype is DType.FP8_E4M3]
    for kernel in eight[:40]:
        a = kernel.algorithm
        assert isinstance(a, CkAlgorithm)
        other = Pipeline.QR if a.pipeline is Pipeline.QR_TDM else Pipeline.QR_TDM
        changed = replace(kernel, algorithm=replace(a, pipeline=other))
        assert BY_ID["K264"].found(changed, load_arch("gfx1250")) is not None


def test_every_rule_has_its_planted_fault() -> None:
    assert {rule.id for rule in ALL} == set(PLANTED)


def test_known_bad_kernels_are_refused_with_their_link() -> None:
    reports = known_bad("ck_tile")
    assert all(report.link.startswith("https://github.com/") and report.what for report in reports)
    assert {report.effect for report in reports} == {"refused", "noted"}
    bad = [k for k in listed("baseline", "gfx1201", Family.BWD_DQ_DK_DV) if k.signature.deterministic is Need.YES]
    for kernel in bad[:20]:
        (reason,) = refusals(kernel)
        assert reason.id == "K291"
        assert "pull/2054" in reason.text
    assert bad
    assert not set(bad) & set(buildable_kernels(load_arch("gfx1201"), Family.BWD_DQ_DK_DV))


TABLED = {(4, 4): "12010120", (4, 2): "120120", (2, 4): "120120", (3, 3): "120120", (3, 4): "1200120", (2, 2): "1210"}
"""LDS buffer of each step, from the tables of ``LdsBufferSequence``
(block_fmha_pipeline_qx_ks_vs_custom_policy.hpp).
"""


def lds_buffers(keys: int, values: int) -> list[int]:
    """The LDS buffer (of three) of each K tile and then of each V tile in ``qr_async``."""
    if (keys, values) in TABLED:
        return [int(digit) for digit in TABLED[keys, values]]
    return [k % 3 for k in range(keys)] + [(2 + v - (values - 1)) % 3 for v in range(values)]


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_the_reported_race_is_where_k_and_v_follow_each_other_in_one_buffer(arch: str) -> None:
    """The last K tile is read and the first V tile is written in one buffer, with no barrier between."""
    (report,) = (r for r in known_bad("ck_tile") if r.finding == "lds-race")
    found = set()
    for kernel in buildable_kernels(load_arch(arch), Family.FWD):
        algorithm = kernel.algorithm
        assert isinstance(algorithm, CkAlgorithm)
        if algorithm.pipeline is not Pipeline.QR_ASYNC or algorithm.rev != "baseline":
            continue
        _, bn0, bk0, _, bk1, whole = algorithm.tile
        keys = whole // bk0
        buffers = lds_buffers(keys, bn0 // bk1)
        assert report.meets(kernel) == (buffers[keys - 1] == buffers[keys]), kernel.name
        found.add((kernel.signature.hdim, report.meets(kernel)))
    assert found >= {(96, True), (192, True), (64, False), (128, False)}


def test_a_rule_is_the_table_s_whatever_problem_and_device() -> None:
    problem, device = Problem.of(), DeviceFacts.of_arch("gfx942")
    rule = next(rule for rule in KERNEL_RULES if rule.id == "K250")
    assert rule.check(problem, ck_kernel(FWD), device) is None
    reason = rule.against(problem, ck_kernel(FWD, vlayout=VLayout.COL), device)
    assert reason is not None
    assert reason.id == "K250"
    place = next(rule for rule in KERNEL_RULES if rule.id == "K201")
    assert place.check(problem, replace(ck_kernel(FWD), arch="x86_64_v4"), device) is not None
    assert rule.check(problem, replace(ck_kernel(FWD), arch="x86_64_v4"), device) is None


def test_disagreements_are_told_where_the_generator_wins() -> None:
    told = {rule.id for rule in ALL if "this rule follows the generator" in rule.help}
    assert {"K250", "K259", "K261"} <= told
