"""Imported kernels: found without a compiler, by their specification, and only if they match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.key import BuildKey, key_for
from fmha_cli.toolchain.cache.prebuilt import RECIPE, find_prebuilt, recipe_for, recipe_of
from fmha_cli.toolchain.cache.prune import PrunePolicy, prune_cache
from fmha_cli.toolchain.cache.store import BuildProduct, Cache
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind
from fmha_cli.toolchain.kernels import kernel_build

SOURCE = "// the text of a kernel\n"


@pytest.fixture
def kernel(sample_kernel: Callable[..., KernelSpec]) -> KernelSpec:
    return sample_kernel()


@pytest.fixture
def sample_kernel() -> Callable[..., KernelSpec]:
    from fmha_null.kernels import null_kernel

    from fmha_cli.domain.dtypes import DType
    from fmha_cli.domain.kernel import Family

    return lambda dtype=DType.FP16: null_kernel(dtype, Family.FWD)


def toolchain(version: str) -> Toolchain:
    return Toolchain(argv0=("/c",), version=version, headers_digest=f"headers of {version}", kind=ToolchainKind.OTHER)


def key_of(kernel: KernelSpec, version: str = "compiler 1", source: str = SOURCE) -> BuildKey:
    return key_for(kernel_build(kernel, source), ("-O3", f"--as={version}"), toolchain(version))


@pytest.fixture
def other(tmp_path: Path, notices: Any) -> Cache:
    return Cache(tmp_path / "other", notices)


@pytest.fixture
def carried(
    cache: Cache, other: Cache, kernel: KernelSpec, write_product: Callable[..., BuildProduct], tmp_path: Path
) -> Artifact:
    """A kernel built in ``cache`` and imported into ``other``."""
    built = cache.get_or_build(key_of(kernel), write_product)
    archive = export_entries(cache.layout, [built.digest], tmp_path / "kernels.tar").archive
    import_entries(other.layout, archive, trust=True)
    return built


def test_an_import_is_found_without_a_compiler(other: Cache, kernel: KernelSpec, carried: Artifact) -> None:
    found = find_prebuilt(other, kernel_build(kernel, SOURCE))
    assert found is not None
    assert found.prebuilt_by == "compiler 1"
    assert (found.digest, found.sha256, found.cached) == (carried.digest, carried.sha256, True)
    assert found.path.read_bytes() == b"library bytes"


def test_what_was_built_here_is_not_prebuilt(cache: Cache, kernel: KernelSpec, carried: Artifact) -> None:
    assert find_prebuilt(cache, kernel_build(kernel, SOURCE)) is None
    assert cache.lookup(key_of(kernel)) is not None


def test_another_kernel_or_text_or_version_is_not_found(
    other: Cache,
    kernel: KernelSpec,
    carried: Artifact,
    sample_kernel: Callable[..., KernelSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fmha_cli.domain.dtypes import DType

    assert find_prebuilt(other, kernel_build(kernel, SOURCE + " ")) is None
    assert find_prebuilt(other, kernel_build(sample_kernel(DType.BF16), SOURCE)) is None
    assert find_prebuilt(other, kernel_build(replace(kernel, arch="sm_90a"), SOURCE)) is None
    monkeypatch.setattr("fmha_cli.toolchain.cache.prebuilt.__version__", "0.0.0+other")
    assert find_prebuilt(other, kernel_build(kernel, SOURCE)) is None


def test_a_recipe_names_everything_but_the_compiler(kernel: KernelSpec) -> None:
    first, second = key_of(kernel), key_of(kernel, "compiler 2")
    assert first.digest != second.digest
    assert recipe_of(first.parts) == recipe_of(second.parts) == recipe_for(kernel_build(kernel, SOURCE))
    assert set(first.parts) - set(RECIPE) == {"flags", "headers_digest", "toolchain_path", "toolchain_version"}
    for part in RECIPE:
        assert recipe_of(first.parts | {part: "x"}) != recipe_of(first.parts)


def test_the_last_import_has_the_name(
    cache: Cache,
    other: Cache,
    kernel: KernelSpec,
    carried: Artifact,
    write_product: Callable[..., BuildProduct],
    tmp_path: Path,
) -> None:
    newer = cache.get_or_build(key_of(kernel, "compiler 2"), write_product)
    import_entries(other.layout, export_entries(cache.layout, [newer.digest], tmp_path / "n.tar").archive, trust=True)
    found = find_prebuilt(other, kernel_build(kernel, SOURCE))
    assert found is not None
    assert (found.digest, found.prebuilt_by) == (newer.digest, "compiler 2")


def test_a_damaged_import_is_not_used(other: Cache, kernel: KernelSpec, carried: Artifact) -> None:
    path = other.layout.entry(carried.digest) / "artifact"
    path.chmod(0o600)
    path.write_bytes(b"other bytes!!")
    assert find_prebuilt(other, kernel_build(kernel, SOURCE)) is None
    assert list(other.layout.quarantine.iterdir())


@pytest.mark.parametrize("text", ["", "x" * 64, "0" * 63, "../" * 20])
def test_a_second_name_that_is_no_digest_leads_nowhere(
    other: Cache, kernel: KernelSpec, carried: Artifact, text: str
) -> None:
    (other.layout.prebuilt / recipe_for(kernel_build(kernel, SOURCE))).write_text(text)
    assert find_prebuilt(other, kernel_build(kernel, SOURCE)) is None


def test_a_second_name_of_another_kernel_leads_nowhere(
    other: Cache, kernel: KernelSpec, carried: Artifact, sample_kernel: Callable[..., KernelSpec]
) -> None:
    from fmha_cli.domain.dtypes import DType

    wrong = sample_kernel(DType.BF16)
    (other.layout.prebuilt / recipe_for(kernel_build(wrong, SOURCE))).write_text(f"{carried.digest}\n")
    assert find_prebuilt(other, kernel_build(wrong, SOURCE)) is None


def test_prune_removes_names_whose_entry_is_gone(other: Cache, kernel: KernelSpec, carried: Artifact) -> None:
    name = other.layout.prebuilt / recipe_for(kernel_build(kernel, SOURCE))
    assert prune_cache(other.layout, PrunePolicy()).others == ()
    prune_cache(other.layout, PrunePolicy(max_bytes=0, grace_s=-1e9))
    assert name.exists() or find_prebuilt(other, kernel_build(kernel, SOURCE)) is None
    prune_cache(other.layout, PrunePolicy())
    assert not name.exists()
