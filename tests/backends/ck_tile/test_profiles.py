"""Profiles of CK-Tile: a name and its receipt number mean the same set, and every number is upstream's."""

from __future__ import annotations

import json

import pytest

from fmha_cli.backends.ck_tile.catalogue import family_kernels, kernels
from fmha_cli.backends.ck_tile.profiles import canonical_profile, profile_names
from fmha_cli.backends.ck_tile.revisions import revisions
from fmha_cli.discovery.profiles import profiles
from fmha_cli.domain.arch import arch_root, load_arch
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import Family

RECEIPTS = {
    "ck_default": 0, "ck_extended": 1, "flash_fwd": 2, "flash_bwd": 3, "pytorch": 4, "aiter_batch": 100,
    "aiter_group": 200, "aiter_bwd_batch": 300, "aiter_bwd_group": 400, "aiter_cpp": 600, "transformer_engine": 700,
    "fp32_all": 800, "fp32_min": 801, "fp8_test": 888,
}  # fmt: skip
"""Upstream's numbers, ``generate.py --receipt``."""
FORWARD_2026_08 = {
    "gfx942": {0: 7208, 1: 10024, 2: 428, 3: 3424, 4: 1712, 100: 4576, 200: 2416, 600: 6992, 700: 636, 888: 216},
    "gfx950": {0: 7760, 1: 10576, 2: 540, 3: 3872, 4: 2160, 100: 4928, 200: 2544, 600: 7472, 700: 748, 888: 248},
    "gfx1100": {0: 5376, 1: 8064, 2: 336, 3: 2688, 4: 1344, 100: 2688, 200: 2688, 600: 5376, 700: 496, 888: 0},
    "gfx1151": {0: 4352, 1: 6528, 2: 272, 3: 2176, 4: 1088, 100: 2176, 200: 2176, 600: 4352, 700: 400, 888: 0},
    "gfx1201": {0: 4562, 1: 6738, 2: 272, 3: 2176, 4: 1088, 100: 2194, 200: 2188, 600: 4382, 700: 400, 888: 60},
}
"""Forward kernels of the newer revision, counted once by a separate program from the same transcribed tables."""
LISTED = (
    ("baseline", "gfx950"),
    ("2026-08", "gfx1201"),
    pytest.param("2026-08", "gfx950", marks=pytest.mark.slow),
)
"""A revision and an architecture. The newer revision has twice as many kernels for gfx950 as for gfx1201."""
CAUSAL_TDM = 24
"""gfx1250 kernels for pure causal masks, which that program omitted."""


def test_every_profile_is_offered_and_known() -> None:
    ours = {p.name: p for p in profiles() if p.backend == "ck_tile"}
    known = [row["name"] for row in json.loads(arch_root().joinpath("_ck_tile_profiles.json").read_text())["profiles"]]
    assert list(ours) == known
    assert set(known) == {name for revision in revisions() for name in profile_names(revision.name)}
    for name, profile in ours.items():
        assert profile.aliases == (f"receipt:{RECEIPTS[name]}",)
        assert profile.terms() == ("backend:ck_tile",)
        assert profile.source


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(("revision", "arch_name"), LISTED)
def test_a_number_and_its_name_are_one_set(revision: str, arch_name: str) -> None:
    arch = load_arch(arch_name)
    for name in profile_names(revision):
        by_name = list(kernels(arch, name, revision))
        assert by_name == list(kernels(arch, f"receipt:{RECEIPTS[name]}", revision))
        assert len(set(by_name)) == len(by_name)


@pytest.mark.parametrize("name", ["receipt:5", "receipt:999", "receipt:", "receipt:-1", "receipt:00", "2", "forward2"])
def test_an_unlisted_name_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        kernels(load_arch("gfx942"), name)
    assert caught.value.code == "F003"


def test_a_profile_of_a_later_revision_is_not_in_the_baseline() -> None:
    assert canonical_profile("receipt:700", "2026-08") == "transformer_engine"
    with pytest.raises(UsageError) as caught:
        kernels(load_arch("gfx942"), "transformer_engine", "baseline")
    assert "ck_default" in (caught.value.help or "")
    assert list(kernels(load_arch("gfx942"), "transformer_engine", "2026-08", [Family.FWD_SPLITKV])) == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("revision", "arch_name"), LISTED)
def test_the_union_of_all_profiles_is_what_is_listed(revision: str, arch_name: str) -> None:
    arch = load_arch(arch_name)
    union = {k for name in profile_names(revision) for k in kernels(arch, name, revision)}
    assert union == {k for family in Family for k in family_kernels(arch, family, revision)}


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", FORWARD_2026_08)
def test_forward_kernels_of_the_newer_revision_are_as_many_as_counted_elsewhere(arch: str) -> None:
    for receipt, count in FORWARD_2026_08[arch].items():
        found = list(kernels(load_arch(arch), f"receipt:{receipt}", "2026-08", [Family.FWD]))
        assert len(found) == count, receipt


def test_gfx1250_has_kernels_for_pure_causal_masks_beside_the_counted_ones() -> None:
    found = list(kernels(load_arch("gfx1250"), "ck_default", "2026-08", [Family.FWD]))
    assert len(found) == 5628 + CAUSAL_TDM
    assert sum(k.signature.mask.value == "causal" for k in found) == CAUSAL_TDM
