"""Occupancy equals the compiler's figure, at every step of the register count and for several LDS sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.toolchain.rocm.metadata import Descriptor, KernelMetadata, kernels
from fmha_cli.toolchain.rocm.occupancy import OccupancyLimits, limits_of, occupancy_of
from tests.support.builds.amdgpu_tiny import ARCHS, Tiny, compiled


def limits(arch: str) -> OccupancyLimits:
    found = limits_of(arch)
    assert found is not None
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("arch", "every"),
    [
        *((arch, 4) for arch in ARCHS),
        *(pytest.param(arch, 1, marks=pytest.mark.slow) for arch in ARCHS),
    ],
)
def test_the_compiler_reports_the_same(arch: str, every: int, tmp_path: Path) -> None:
    """The figures agree for each register count that matters: at each step, one below and one above.

    Each count is a compile, so the default run takes every fourth step.
    """
    have = limits(arch)
    wave = 32 if arch.startswith("gfx1") else 64
    most = min(255, have.vgprs - 1)
    steps = sorted({have.vgprs // n // have.vgpr_granule * have.vgpr_granule for n in range(2, have.waves + 1)})
    tried = {min(max(0, step + more), most) for step in steps[::every] for more in (-1, 0)}
    for vgpr in sorted(tried):
        code, said = compiled(Tiny(arch=arch, block=wave, vgpr=vgpr), tmp_path)
        (kernel,) = kernels(code)
        assert occupancy_of(kernel, have).waves_per_simd == int(said["Occupancy"]), f"v{vgpr}"


def test_agprs_and_sgprs_count(tmp_path: Path) -> None:
    for tiny in (Tiny(block=64, vgpr=60, agpr=69), Tiny(block=64, vgpr=60, agpr=60), Tiny(block=64, sgpr=101)):
        code, said = compiled(tiny, tmp_path)
        assert occupancy_of(kernels(code)[0], limits("gfx942")).waves_per_simd == int(said["Occupancy"]), tiny


@pytest.mark.sampled(9)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "lds", [8192, 30240, 65536, *(pytest.param(n, marks=pytest.mark.slow) for n in (512, 13824, 16384, 40000))]
)
def test_the_bound_from_lds(arch: str, lds: int, tmp_path: Path) -> None:
    code, said = compiled(Tiny(arch=arch, lds=lds), tmp_path)
    (kernel,) = kernels(code)
    assert kernel.lds_bytes == lds
    assert occupancy_of(kernel, limits(arch)).waves_per_simd == int(said["Occupancy"])


def kernel(**changes: object) -> KernelMetadata:
    descriptor = Descriptor(
        lds_bytes=0, scratch_bytes=0, kernarg_bytes=8, entry=0, vgpr_blocks=1, accum_offset=4, wgp_mode=True
    )
    plain = KernelMetadata(
        name="k",
        vgprs=8,
        agprs=0,
        sgprs=16,
        vgpr_spills=0,
        sgpr_spills=0,
        lds_bytes=0,
        scratch_bytes=0,
        kernarg_bytes=8,
        block=256,
        wave=64,
        dynamic_stack=False,
        descriptor=descriptor,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "waves", "groups", "by"),
    [
        ({}, 8, 8, ("waves",)),
        ({"vgprs": 132}, 3, 3, ("vgpr",)),
        ({"vgprs": 256}, 2, 2, ("vgpr",)),
        ({"vgprs": 386}, 1, 1, ("vgpr",)),
        ({"lds_bytes": 27648}, 2, 2, ("lds",)),
        ({"lds_bytes": 65536, "vgprs": 386}, 1, 1, ("vgpr", "lds")),
        ({"sgprs": 101}, 7, 7, ("sgpr",)),
        ({"block": 128}, 8, 16, ("waves",)),
        ({"block": 64, "lds_bytes": 32768}, 0.5, 2, ("lds",)),
        ({"block": 1024, "vgprs": 100}, 4, 1, ("vgpr",)),
    ],
)
def test_what_limits(changes: dict[str, object], waves: float, groups: int, by: tuple[str, ...]) -> None:
    found = occupancy_of(kernel(**changes), limits("gfx942"))
    assert (found.waves_per_simd, found.groups, found.limited_by) == (waves, groups, by)


def test_cu_mode_has_half_of_a_wgp() -> None:
    wide = kernel(wave=32, lds_bytes=32768)
    narrow = replace(wide, descriptor=replace(wide.descriptor, wgp_mode=False))
    assert occupancy_of(wide, limits("gfx1201")).groups == 4
    assert occupancy_of(narrow, limits("gfx1201")).groups == 2
    assert (
        occupancy_of(narrow, limits("gfx1201")).waves_per_simd == occupancy_of(wide, limits("gfx1201")).waves_per_simd
    )


def test_an_unknown_architecture() -> None:
    assert limits_of("gfx803") is None
