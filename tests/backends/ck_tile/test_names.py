"""Upstream's file names: they equal the generator's lists, and they parse back to kernels."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from fmha_cli.backends.ck_tile.catalogue import family_kernels, kernels
from fmha_cli.backends.ck_tile.profiles import profile_names
from fmha_cli.backends.ck_tile.upstream_names import upstream_name
from fmha_cli.discovery.profiles import profiles_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import Family
from tests.support.generators.ck_tile.mutations import ARCHS, PLACES, SOME_PLACES, sampled
from tests.support.referees.ck_tile.upstream import generator
from tests.support.referees.ck_tile.upstream_parse import parse_upstream_name

GOLDEN = Path(__file__).parents[2] / "golden" / "ck_names.json"
FAMILIES = {
    "fwd": (Family.FWD,),
    "fwd_splitkv": (Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE),
    "fwd_appendkv": (Family.FWD_APPENDKV,),
    "pagedkv_prefill": (Family.FWD_PAGEDKV,),
    "batch_prefill": (Family.BATCH_PREFILL,),
    "bwd": (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ),
}
"""The families that each API of generate.py lists."""
QUICK = (
    ("gfx942", "fwd", 0),
    ("gfx950", "bwd", 2),
    ("gfx1201", "batch_prefill", 4),
    ("gfx90a", "fwd_splitkv", 4),
    ("gfx1201", "pagedkv_prefill", 200),
    ("gfx950", "fwd_appendkv", 600),
)
Cell = tuple[str, str, int]
ALL = [
    (arch, api, int(profiles_of(name)[0].aliases[0].removeprefix("receipt:")))
    for arch in ARCHS["baseline"]
    for api in FAMILIES
    for name in profile_names("baseline")
]


def ours(cell: Cell) -> list[str]:
    """The names that the tool lists for an architecture, an API of generate.py and a receipt."""
    arch, api, receipt = cell
    listed = kernels(load_arch(arch), f"receipt:{receipt}", "baseline", FAMILIES[api])
    return [name for kernel in listed if (name := upstream_name(kernel)) is not None]


def theirs(folder: Path, cell: Cell, into: Path) -> list[str]:
    """The names that upstream's generator lists; its last line is the API file."""
    arch, api, receipt = cell
    listing = into / "list.txt"
    command = [sys.executable, "generate.py", "-d", api, "--targets", arch, "-r", str(receipt), "-l", str(listing)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
    stems = [Path(line).stem for line in listing.read_text("utf-8").split()]
    assert stems[-1].endswith("_api")
    return stems[:-1]


@dataclass(frozen=True)
class Golden:
    count: int
    sha256: str


def golden() -> dict[Cell, Golden]:
    rows = json.loads(GOLDEN.read_text("utf-8"))["cells"]
    return {(r["arch"], r["api"], r["receipt"]): Golden(r["count"], r["sha256"]) for r in rows}


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", ARCHS["baseline"])
def test_the_listed_names_are_those_recorded_from_upstream(arch: str) -> None:
    for cell, recorded in golden().items():
        if cell[0] == arch:
            names = sorted(ours(cell))
            assert Golden(len(names), hashlib.sha256("\n".join(names).encode()).hexdigest()) == recorded, cell


def test_the_record_has_every_architecture_api_and_receipt() -> None:
    assert set(golden()) == {
        (a, api, r) for a in ARCHS["baseline"] for api in FAMILIES for r in (0, 2, 4, 100, 200, 600)
    }


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("cell", QUICK)
def test_the_listed_names_are_upstream_s(cell: Cell, shared_cache: Path, tmp_path: Path) -> None:
    wanted, found = theirs(generator(shared_cache), cell, tmp_path), ours(cell)
    assert len(wanted) == len(set(wanted))
    assert sorted(found) == sorted(wanted)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_listed_names_are_upstream_s(shared_cache: Path, tmp_path: Path) -> None:
    """All names agree for every architecture, API and receipt; the test prints the table of counts."""
    folder, counts = generator(shared_cache), {}
    for cell in ALL:
        wanted = theirs(folder, cell, tmp_path)
        assert sorted(ours(cell)) == sorted(wanted), cell
        counts[cell] = len(wanted)
    receipts = sorted({cell[2] for cell in ALL})
    for arch in ARCHS["baseline"]:
        print(f"\n{arch:16}" + "".join(f"{r:>7}" for r in receipts))
        for api in FAMILIES:
            print(f"{api:16}" + "".join(f"{counts[arch, api, r]:>7}" for r in receipts))


def test_upstream_s_slip_is_reproduced(shared_cache: Path, tmp_path: Path) -> None:
    """Receipt 4 admits no split-KV kernel, because its list of types is the single string 'fp16, bf16'."""
    cell = ("gfx942", "fwd_splitkv", 4)
    listed = list(kernels(load_arch("gfx942"), "pytorch", "baseline", FAMILIES["fwd_splitkv"]))
    assert {kernel.family for kernel in listed} == {Family.FWD_SPLITKV_COMBINE}
    assert sorted(ours(cell)) == sorted(theirs(generator(shared_cache), cell, tmp_path))


NAMED = (("baseline", "gfx950"), ("2026-08", "gfx1100"), ("2026-08", "gfx1250"))
"""Both revisions, CDNA, RDNA and gfx1250: all the fields that names have, with a fifth of the kernels."""


@pytest.mark.parametrize(
    ("revision", "arch"),
    [
        pytest.param(revision, arch, marks=() if (revision, arch) in NAMED else pytest.mark.slow)
        for revision, archs in ARCHS.items()
        for arch in archs
    ],
)
def test_no_two_kernels_share_a_name_or_a_digest(revision: str, arch: str) -> None:
    listed = [k for family in Family for k in family_kernels(load_arch(arch), family, revision)]
    assert listed
    assert len({k.name for k in listed}) == len(listed)
    assert len({k.digest for k in listed}) == len(listed)
    assert len({upstream_name(k) for k in listed}) == len(listed)


def test_names_read_back() -> None:
    for kernel in sampled(Random(4), 8, SOME_PLACES):
        name = upstream_name(kernel)
        assert name is not None
        assert parse_upstream_name(name, kernel.arch, kernel.algorithm.rev) == kernel  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_names_read_back() -> None:
    for revision, arch, family in PLACES:
        for kernel in family_kernels(load_arch(arch), family, revision):
            assert parse_upstream_name(upstream_name(kernel) or "", arch, revision) == kernel


COMBINE = "fmha_fwd_splitkv_combine_d128_fp16_batch_b32_unused_psdv_lse_nsquant"


def test_a_name_of_several_architectures_needs_one_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_upstream_name(f"{COMBINE}_gfx9")
    assert "gfx90a, gfx942, gfx950" in caught.value.what
    assert parse_upstream_name(f"{COMBINE}_gfx12.cpp").arch == "gfx1201"
    assert parse_upstream_name(f"{COMBINE}_gfx9", "gfx950").arch == "gfx950"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fmha_fwd",
        COMBINE,
        f"{COMBINE}_gfx11",
        f"{COMBINE}_gfx9".replace("psdv", "pdvs"),
        f"{COMBINE}_gfx9".replace("fp16", "fp17"),
        f"{COMBINE}_gfx9".replace("d128", "d130"),
        f"{COMBINE}_gfx9".replace("_lse", "_lse_lse"),
        f"{COMBINE}_gfx9".replace("_unused", "_used"),
    ],
)
def test_what_upstream_never_writes_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_upstream_name(text, "gfx942", "baseline")
    assert caught.value.code == "E006"
