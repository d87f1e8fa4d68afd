"""Kernels from an archive, on a machine without a compiler and sources: only these are available."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.cuda import shop as shops
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.run.builds import build_orders
from fmha_cli.run.request import Order
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.key import key_for
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cache.store import BuildProduct, Cache
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind
from fmha_cli.toolchain.kernels import kernel_build

BACKEND = CubinBackend(UPSTREAM)
BWD = "-b 1 -H 2 -s 256 -d 64 --dtype bf16 --causal --direction bwd"


def plan_of(flags: str) -> Plan:
    problem, device = Problem.from_cli(flags), DeviceFacts.of_arch("sm_90")
    fits = [d for d in BACKEND.decide(problem, device) if isinstance(d, Supported)]
    return BACKEND.plan(problem, min(fits, key=lambda d: d.rank).kernel, device)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive from another machine with another compiler, with the kernels of a backward problem."""
    cache = Cache(tmp_path / "there")
    other = Toolchain(argv0=("/c",), version="NVRTC 13.0.1", headers_digest="their headers", kind=ToolchainKind.OTHER)

    def product(work: Path) -> BuildProduct:
        (work / "a").write_bytes(b"a cubin")
        (work / "log").write_bytes(b"")
        return BuildProduct(work / "a", work / "log", 30.0, None)

    kernels = [stage.kernel for stage in plan_of(BWD).stages]
    built = [
        cache.get_or_build(key_for(kernel_build(k, shops.text_of(UPSTREAM, k)), ("-x",), other), product)
        for k in kernels
    ]
    return export_entries(cache.layout, [a.digest for a in built], tmp_path / "kernels.tar.xz").archive


@pytest.fixture
def here(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> BuildContext:
    """A machine with the archive's kernels but no compiler and no sources."""

    def no_compiler(*_: object, **__: object) -> None:
        raise EnvironmentProblem("no compiler for NVIDIA GPUs works here", code="B050")

    monkeypatch.setattr(shops, "find_cuda", no_compiler)
    root = tmp_path / "here"
    import_entries(open_root(root), archive, trust=True)  # the simulated compiler writes no ELF
    return BuildContext(cache_root=root, offline=True)


def test_the_kernels_of_an_archive_need_no_compiler(here: BuildContext) -> None:
    for stage in plan_of(BWD).stages:
        artifact = BACKEND.build(stage, here)
        assert artifact.prebuilt_by == "NVRTC 13.0.1"
        assert artifact.cached
        assert artifact.path.read_bytes() == b"a cubin"


def test_other_kernels_say_what_is_missing(here: BuildContext) -> None:
    with pytest.raises(EnvironmentProblem, match="no compiler") as caught:
        BACKEND.build(plan_of(BWD.replace("bf16", "fp16")).stages[1], here)
    assert caught.value.code == "B050"


def test_a_walk_gets_what_is_there(here: BuildContext) -> None:
    """One kernel that cannot be built does not block those that are available."""
    there, missing = plan_of(BWD), plan_of(BWD.replace("-d 64", "-d 128"))
    outcomes = build_orders(map(Order, [*there.stages, *missing.stages]), build_registry(), here)
    assert all(outcomes[stage.kernel.digest].value for stage in there.stages)
    assert all(outcomes[stage.kernel.digest].error for stage in missing.stages)


def test_a_text_with_other_sources_is_another_kernel(here: BuildContext, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shops.text_of
    monkeypatch.setattr(shops, "text_of", lambda *of: before(*of).replace("// flash-attn ", "// flash-attn 0"))
    with pytest.raises(EnvironmentProblem, match="no compiler"):
        BACKEND.build(plan_of(BWD).stages[1], here)
