"""Kernels compile with NVRTC alone, and the host refuses a cubin that differs from it in anything."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cuda import shop as shops
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.shop import Workshop, build, key_of, text_of, workshop
from fmha_cli.backends.cuda.tables import Expected, check_exports
from fmha_cli.backends.mem_efficient.catalogue import kernels, profile_kernels
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.params import MemEffBwdParams
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure, UnsupportedError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.sources.homes import Known
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.toolchain import find_cuda
from tests.support.builds.nvrtc_context import nvrtc_context
from tests.support.fakes.exports import fake_exports
from tests.support.fakes.played_cuda import site

pytestmark = pytest.mark.promise("Kernels are built from pinned sources, and NVRTC needs no GPU.")

SMALL = "fmha_cutlassF_f16_aligned_64x64_rf_sm75"
"""The kernel that compiles fastest, in about 5 seconds of CPU time."""


def named(name: str, arch: str) -> KernelSpec:
    return next(kernel for kernel in kernels(load_arch(arch)) if traits_of(kernel).name == name)


KERNEL = named(SMALL, "sm_75")
PLAYED = named("fmha_cutlassF_f16_aligned_64x64_rf_sm80", "sm_90")
"""A kernel for an architecture that the simulated NVRTC knows."""


@pytest.fixture(scope="module")
def made(shared_cache: Path) -> Artifact:
    """The small kernel, compiled once for this run; skips the tests if NVRTC or the sources are missing."""
    return build(UPSTREAM, KERNEL, nvrtc_context(UPSTREAM, shared_cache))


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_compiles(made: Artifact, shared_cache: Path) -> None:
    raw = made.path.read_bytes()
    cubin = Cubin(raw)
    assert (cubin.arch, [kernel.name for kernel in cubin.kernels]) == ("sm_75", [SMALL])
    assert cubin.extern_calls == ()
    assert b"__assertfail" not in raw
    assert str(shared_cache).encode() not in raw
    exported = check_exports(raw, KERNEL, UPSTREAM.expect_exports(KERNEL))
    assert (exported.block_bytes, exported.smem_bytes, exported.threads) == (272, 18944, 128)
    assert cubin.kernels[0].parameter_bytes == 272
    assert cubin.kernels[0].most_threads == 128
    found = CubinBackend(UPSTREAM, False).inspect(KERNEL, made)
    assert found["unknown_instructions"] is None
    assert found["extern_calls"] == []
    assert found["template"] == traits_of(KERNEL).template
    reckoned = UPSTREAM.compile_bytes[KERNEL.family]
    assert not isinstance(found["compile_peak_bytes"], int) or found["compile_peak_bytes"] < reckoned


Change = Callable[[Expected], dict[str, Any]]
CHANGES: dict[str, Change] = {
    "version": lambda e: {"version": e.version + 1},
    "block": lambda e: {"block": MemEffBwdParams},
    "threads": lambda e: {"threads": e.threads + 32},
    "shared_bytes": lambda e: {"shared_bytes": e.shared_bytes + 16},
    "extra": lambda e: {"extra": ("more",)},
    **{
        name: lambda e, name=name: {"facts": {**e.facts, name: e.facts[name] + 1}}  # type: ignore[misc]
        for name in UPSTREAM.expect_exports(KERNEL).facts
    },
}


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("what", CHANGES)
def test_a_host_that_expects_something_else_refuses_it(made: Artifact, what: str) -> None:
    expected = UPSTREAM.expect_exports(KERNEL)
    with pytest.raises(KernelFailure) as caught:
        check_exports(made.path.read_bytes(), KERNEL, replace(expected, **CHANGES[what](expected)))
    assert caught.value.code == "B061"


def test_a_field_at_another_place_is_noticed() -> None:
    for kernel in (KERNEL, named("fmha_cutlassB_bf16_aligned_64x64_k64_sm80", "sm_90a")):
        expected = UPSTREAM.expect_exports(kernel)
        check_exports(fake_exports(kernel.arch, expected), kernel, expected)
        with pytest.raises(KernelFailure, match="does not match") as caught:
            check_exports(fake_exports(kernel.arch, expected, drift=8), kernel, expected)
        assert caught.value.code == "B061"


def test_early_architectures_are_not_built(tmp_path: Path) -> None:
    kernel = next(iter(profile_kernels(load_arch("sm_70"), "pytorch")))
    with pytest.raises(UnsupportedError, match=r"NVRTC 13\.0 does not compile for sm_70"):
        build(UPSTREAM, kernel, BuildContext(tmp_path, offline=True))


@pytest.fixture
def played(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> BuildContext:
    """Builds with a simulated NVRTC, whose cubin is that of ``PLAYED``."""
    there = site(tmp_path / "site", shared_cache)
    found = find_cuda(tmp_path / "cache", folders=[str(there.folder)])
    cubin = fake_exports(PLAYED.arch, UPSTREAM.expect_exports(PLAYED))
    (there.folder / "nvidia/cu13/lib/default.cubin").write_bytes(cubin)
    monkeypatch.setattr(shops, "find_nvcc", lambda root: None)
    monkeypatch.setattr(shops, "find_cuda", lambda *of, **more: found)
    return BuildContext(tmp_path / "cache", offline=True)


def test_an_own_tree_is_built_against(played: BuildContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers of ``--xf-home`` come in upstream's order behind the shims; an edit changes keys and texts."""
    root, files = tmp_path / "checkout", {}
    for name, folder in UPSTREAM.folders.items():
        (root / folder).mkdir(parents=True)
        for number in range(10):
            (root / folder / f"{number}.h").write_text(f"int x{number};\n")
            files[f"{name}/{number}.h"] = hashlib.sha256(f"int x{number};\n".encode()).hexdigest()[:16]
    monkeypatch.setattr(Known, "load", staticmethod(lambda file: Known("0.0.28.post3", files)))
    context = replace(played, options={"xf-home": str(root)})
    same = key_of(UPSTREAM, PLAYED, context).digest
    log = build(UPSTREAM, PLAYED, context).log.read_text()
    order = [
        "mem_efficient/src/common",
        "mem_efficient/src/std",
        "cuda/src/nvrtc",
        "attention/cuda/fmha",
        "cutlass/include",
    ]
    places = [log.index(part) for part in order]
    assert places == sorted(places)
    (root / UPSTREAM.folders["fmha"] / "3.h").write_text("int edited;\n")
    shop = workshop(UPSTREAM, context)
    assert isinstance(shop, Workshop)
    assert shop.edited is not None
    assert shop.edited.base == "0.0.28.post3"
    assert key_of(UPSTREAM, PLAYED, context).digest != same
    assert text_of(UPSTREAM, PLAYED, shop.digests) != text_of(UPSTREAM, PLAYED)


def test_the_known_files_are_those_of_the_pinned_source(shared_cache: Path) -> None:
    from fmha_cli.backends.cuda.homes import own_tree
    from fmha_cli.sources.store import fetch_source

    try:
        tree = fetch_source("xformers", shared_cache, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"no sources of xformers: {fault.what}")
    own = own_tree(UPSTREAM, {"xf-home": str(tree)}, shared_cache, lambda notice: None)
    assert own is not None
    assert own.edited is None
