"""The catalogue: revisions, classes, order, laziness and speed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.backends.ck_tile.catalogue import buildable_kernels, family_kernels, kernels
from fmha_cli.backends.ck_tile.enumeration import emitted
from fmha_cli.backends.ck_tile.revisions import dtype_names, dtypes_of, in_revision, revision_of, revisions
from fmha_cli.backends.ck_tile.tables import parse_value, tables_of
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.domain.arch import arch_root, load_arch
from fmha_cli.domain.errors import EmptySelection, InternalError, UsageError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.protocols import Catalogued
from fmha_cli.domain.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, QScaleKey
from tests.support.generators.ck_tile.mutations import PLACES, SOME_PLACES, Place

pytestmark = pytest.mark.promise("GPU backends list upstream's kernels and choose among them as upstream does.")

TABLES = sorted(
    {f.name for f in arch_root().iterdir() if f.name.startswith("_ck_tile_")}
    - {"_ck_tile_rules.json", "_ck_tile_files.json"}
)


def algorithm(kernel: KernelSpec) -> CkAlgorithm:
    assert isinstance(kernel.algorithm, CkAlgorithm)
    return kernel.algorithm


def test_the_backend_is_catalogued() -> None:
    backend = CkTileBackend()
    assert isinstance(backend, Catalogued)
    assert backend.revisions() == tuple(r.name for r in revisions()) == ("baseline", "2026-08")


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_the_tables_has_a_source(name: str) -> None:
    data = json.loads(arch_root().joinpath(name).read_text("utf-8"))
    rows = [row for key in ("tiles", "pipelines", "predicates") for row in data.get(key, ())]
    assert rows
    for row in rows:
        assert row["source"] in data["sources"], row
        assert {row.get("since"), row.get("until")} <= {None, "2026-08"}
    assert all(len(text) > 40 for text in data["sources"].values())


def test_revisions_have_aliases() -> None:
    assert revision_of(None).name == revision_of("2025-11").name == "baseline"
    with pytest.raises(UsageError) as caught:
        revision_of("2026-09")
    assert caught.value.code == "F007"
    assert "2026-08" in (caught.value.help or "")


def test_rows_are_in_the_revisions_between_since_and_until() -> None:
    row = {"since": "2026-08"}
    assert [in_revision(row, r) for r in ("baseline", "2026-08")] == [False, True]
    assert [in_revision({"until": "2026-08"}, r) for r in ("baseline", "2026-08")] == [True, False]


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151", "gfx1250"])
def test_an_architecture_without_kernels_names_the_first_revision_with_some(arch: str) -> None:
    with pytest.raises(EmptySelection) as caught:
        kernels(load_arch(arch))
    assert caught.value.code == "F006"
    assert caught.value.help == "--ck-rev 2026-08"
    assert next(iter(kernels(load_arch(arch), revision="2026-08"))).arch == arch


def test_an_architecture_of_no_revision_says_so() -> None:
    with pytest.raises(EmptySelection) as caught:
        kernels(load_arch("x86_64_v4"))
    assert "no known revision" in (caught.value.why or "")


def test_every_architecture_lists_what_it_has() -> None:
    assert len(family_kernels(load_arch("gfx942"), Family.FWD)) == 2908 + 1024 + 864  # receipt 0, receipt 1's own, fp32
    assert len(family_kernels(load_arch("gfx1201"), Family.FWD)) == 1884
    empty = {(r, a, f) for r, a, f in PLACES if next(emitted(load_arch(a), f, r), None) is None}
    assert not {place for place in empty if place[2] is Family.FWD}
    none = {(a, f) for r, a, f in empty if r == "2026-08" and f is not Family.FWD_PREPARE}
    assert {place for place in PLACES if place[2] is Family.FWD_PREPARE} <= empty, "CK prepares nothing"
    rdna3 = ("gfx1100", "gfx1151", "gfx1250")
    stages = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ, Family.FWD_APPENDKV)
    assert none == {(a, f) for a in rdna3 for f in (*stages, Family.BATCH_PREFILL)} | {
        ("gfx1201", Family.BATCH_PREFILL)
    }


def test_a_profile_lists_what_cannot_be_built_and_the_default_does_not() -> None:
    arch = load_arch("gfx1201")
    assert not list(buildable_kernels(arch, Family.BATCH_PREFILL))
    assert not list(kernels(arch, families=[Family.BATCH_PREFILL]))
    assert len(list(kernels(arch, profile="receipt:0", families=[Family.BATCH_PREFILL]))) == 384


def test_families_alone_are_listed_when_asked_for() -> None:
    found = list(kernels(load_arch("gfx942"), families=[Family.BWD_DOT_DO_O, Family.FWD_APPENDKV]))
    assert list(dict.fromkeys(k.family for k in found)) == [Family.BWD_DOT_DO_O, Family.FWD_APPENDKV]


@pytest.mark.parametrize(
    "places", [pytest.param(SOME_PLACES, id="some"), pytest.param(PLACES, id="all", marks=pytest.mark.slow)]
)
def test_signatures_say_what_upstream_compiles_in(places: Sequence[Place]) -> None:
    """The conventions on which other parts of the backend rely when they read a kernel."""
    for revision, arch, family in places:
        for kernel in family_kernels(load_arch(arch), family, revision)[::97]:
            s, a = kernel.signature, algorithm(kernel)
            assert s.gqa is Need.ANY
            assert s.sink_logits is Need.NO
            assert a.rev == revision
            if family is Family.FWD:
                assert (s.cache, s.split, s.append) == (CacheKey.NONE, Need.NO, Need.NO)
                assert s.mask in (MaskKey.NONE, MaskKey.ANY, MaskKey.CAUSAL)
            if family is Family.FWD_SPLITKV:
                assert (s.lse, s.split, s.append) == (Need.ANY, Need.ANY, Need.ANY)
                assert s.cache in (CacheKey.PAGED, CacheKey.ANY)
                assert s.page == 0
            if family is Family.FWD_PAGEDKV:
                assert (s.cache, s.page, s.lse) == (CacheKey.PAGED, 0, Need.NO)
            if family is Family.BATCH_PREFILL:
                assert s.cache is CacheKey.PAGED
                assert s.page in ((1,) if revision == "baseline" else (1, 16, 1024))
            if family is Family.BWD_DQ_DK_DV:
                assert s.lse is Need.ANY
                assert s.deterministic is not Need.ANY
            if revision == "baseline" and s.sink is not Need.ANY:
                assert s.sink is Need.NO
            assert s.qscale in (QScaleKey.NONE, QScaleKey.TENSOR) or revision == "2026-08"


def test_the_order_is_upstream_s() -> None:
    """The order is types, head dims, mode, tile, pipeline; the padded pipeline follows the plain one."""
    found = family_kernels(load_arch("gfx942"), Family.FWD)
    plain = [
        k
        for k in found
        if (k.signature.dtype.value, k.signature.hdim, k.signature.mode) == ("fp16", 256, ModeKey.BATCH)
        and (k.signature.mask, k.signature.bias) == (MaskKey.NONE, BiasKey.NONE)
        and {k.signature.softcap, k.signature.lse, k.signature.dropout} == {Need.NO}
        and not algorithm(k).skip_min_seqlen_q
    ]
    pads = [(a.pad_s, a.pad_sk, a.pad_d, a.pad_dv) for a in map(algorithm, plain)]
    assert pads == [(False, False, 0, 0), (True, True, 0, 0), (True, True, 1, 1)]
    dtypes = list(dict.fromkeys(dtype_names()[k.signature.dtype, k.signature.dtype_out] for k in found))
    assert dtypes == ["fp32", "fp16", "bf16", "fp8", "fp8bf16", "fp8fp32"]


def test_constraints_are_those_of_the_tables() -> None:
    later = {algorithm(k).constraint.value for k in family_kernels(load_arch("gfx1100"), Family.FWD_SPLITKV, "2026-08")}
    assert "short-pages" in later
    strix = {algorithm(k).constraint.value for k in family_kernels(load_arch("gfx1151"), Family.FWD_SPLITKV, "2026-08")}
    assert "short-pages" not in strix
    prefill = family_kernels(load_arch("gfx942"), Family.BATCH_PREFILL)
    assert {(algorithm(k).tile[0], algorithm(k).constraint.value) for k in prefill} == {
        (64, "few-blocks-128"),
        (128, "none"),
    }


def test_parts_are_shared_between_kernels() -> None:
    found = family_kernels(load_arch("gfx942"), Family.BWD_DQ_DK_DV)
    assert len({id(k.algorithm) for k in found}) * 10 < len(found)


def test_enumeration_is_lazy() -> None:
    found = emitted(load_arch("gfx950"), Family.BWD_DQ_DK_DV, "baseline")
    assert iter(found) is found, "kernels come one by one"
    assert algorithm(next(found).kernel).pipeline is Pipeline.BWD


def test_listing_imports_no_numpy_and_no_rules_of_problems() -> None:
    code = (
        "import sys\n"
        "from fmha_cli.domain.arch import load_arch\n"
        "from fmha_cli.backends.ck_tile.catalogue import kernels\n"
        "from fmha_cli.backends.ck_tile.upstream_names import upstream_name\n"
        "print(sum(1 for k in kernels(load_arch('gfx942')) if upstream_name(k)))\n"
        "assert not {'numpy', 'ctypes', 'subprocess', 'fmha_cli.backends.ck_tile.problem_rules'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 14000


def test_malformed_tables_are_internal_errors() -> None:
    with pytest.raises(InternalError):
        parse_value("no_such_field", "yes")
    with pytest.raises(InternalError):
        dtypes_of("fp12")
    assert tables_of(Family.FWD, "no-such-class", "baseline").tiles == ()
