"""Compiling in a child for targets without a device. These tests need Triton; most are for CI's second stage."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
if importlib.util.find_spec("triton") is None:  # its import takes a second and belongs to the child
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from fmha_triton import building
from fmha_triton.catalogue import function_of, kernels_of
from fmha_triton.emit import emit
from fmha_triton.image import read_image

from fmha_cli import api, plugin


def context(root: Path) -> plugin.BuildContext:
    return plugin.BuildContext(cache_root=root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


def kernel_of(arch: str, function: str, hdim: int = 64) -> api.KernelSpec:
    fitting = (k for k in kernels_of(arch) if function_of(k) == function and k.signature.hdim == hdim)
    return next(fitting)


@pytest.mark.promise(
    "README: Triton, Gluon", "Triton's and Gluon's kernels compile without a GPU and pass on the emulators."
)
def test_a_kernel_compiles_and_its_figures_are_read(root: Path) -> None:
    kernel = kernel_of("gfx942", "combine")
    artifact = building.build(plugin.Stage(kernel), context(root))
    image = read_image(artifact.path)
    assert image.symbol == "combine"
    assert image.binary.startswith(b"\x7fELF")
    assert building.build(plugin.Stage(kernel), context(root)).cached
    figures = building.inspect(kernel, artifact)
    assert figures["registers"]["vgpr"] > 0
    assert figures["lds_bytes"] == image.shared_bytes


@pytest.mark.promise("A compiler of Triton that aborts costs one build.")
def test_a_compiler_that_aborts_costs_one_build(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM ends the process when it cannot go on. The text here does the same while it is imported."""
    monkeypatch.setattr(building, "emit", lambda kernel: f"import os\nos.abort()\n{emit(kernel)}")
    with pytest.raises(api.KernelFailure) as caught:
        building.build(plugin.Stage(kernel_of("gfx942", "combine")), context(root))
    assert "signal 6" in str(caught.value.what) + str(caught.value.why)


@pytest.mark.promise("The key of a build has all that decides it, and nothing of the machine's folders.")
def test_triton_s_version_and_the_program_are_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of("gfx942", "combine")
    before = building.cache_key(plugin.Stage(kernel), context(tmp_path)).digest
    monkeypatch.setattr(building, "triton_version", lambda: "99.0")
    assert building.cache_key(plugin.Stage(kernel), context(tmp_path)).digest != before
    monkeypatch.setattr(building, "triton_version", lambda: None)
    with pytest.raises(api.EnvironmentProblem) as caught:
        building.cache_key(plugin.Stage(kernel), context(tmp_path))
    assert caught.value.code == "K972"


@pytest.mark.promise("The key of a build has all that decides it, and nothing of the machine's folders.")
@pytest.mark.slow
@pytest.mark.ci
def test_two_builds_have_the_same_bytes_whatever_the_environment(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernel_of("sm_80", "combine")
    one = building.build(plugin.Stage(kernel), context(root)).sha256
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    assert building.build(plugin.Stage(kernel), context(other)).sha256 == one


@pytest.mark.promise(
    "README: Triton, Gluon", "Triton's and Gluon's kernels compile without a GPU and pass on the emulators."
)
@pytest.mark.slow
@pytest.mark.ci
def test_the_hopper_kernel_uses_tma_and_wgmma(root: Path) -> None:
    """Its arguments are packed at the places that the cubin records; they are not those of a C structure."""
    kernel = kernel_of("sm_90a", "forward_hopper")
    artifact = building.build(plugin.Stage(kernel), context(root))
    ptx = artifact.path.with_name("kernel.ptx").read_text("utf-8")
    for instruction in ("wgmma.mma_async.sync", "cp.async.bulk.tensor.4d", "setmaxnreg.dec", "mbarrier.try_wait"):
        assert instruction in ptx
    figures = building.inspect(kernel, artifact)
    assert figures["target"] == "sm_90a"
    assert figures["spills"]["stores"] == 0
    assert figures["matrix_instructions"] == 36
    places = plugin.parameter_places(read_image(artifact.path).binary)
    descriptors = [offset for offset, size in places if size == 128]
    assert len(descriptors) == 4
