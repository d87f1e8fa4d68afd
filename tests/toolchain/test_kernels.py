"""Kernels that need no compiler: the cache treats them like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli import plugin
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.signature import Signature
from fmha_cli.toolchain.cache.audit import verify_cache
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.key import BuildKind
from fmha_cli.toolchain.cache.listing import list_entries
from fmha_cli.toolchain.cache.prune import PrunePolicy, prune_cache
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.kernels import kernel_build, no_build, no_build_key


def stage(hdim: int = 64) -> Stage:
    signature = Signature(dtype=DType.FP32, dtype_out=DType.FP32, hdim=hdim, hdim_v=hdim)
    return Stage(
        KernelSpec(backend="framework", family=Family.FWD, arch="generic", signature=signature, algorithm=Algorithm())
    )


@pytest.fixture
def context(tmp_path: Path, notices: Any) -> BuildContext:
    return BuildContext(cache_root=tmp_path / "cache", notify=lambda text: notices.said.append(text))


def test_a_kernel_as_a_thing_to_build() -> None:
    kernel = stage().kernel
    spec = kernel_build(kernel, "text")
    assert (spec.kind, spec.name, spec.arch, spec.source) == (BuildKind.KERNEL, kernel.name, "generic", "text")
    assert spec.identity == to_json(kernel)


def test_it_is_kept_once_and_found_again(context: BuildContext) -> None:
    first, again, other = no_build(stage(), context), no_build(stage(), context), no_build(stage(128), context)
    assert (first.cached, again.cached, other.cached) == (False, True, False)
    assert first.digest == again.digest == no_build_key(stage()).digest != other.digest
    assert json.loads(first.path.read_text()) == {"kernel": stage().kernel.name}
    assert "nothing was compiled" in first.log.read_text()


def test_the_cache_lists_verifies_exports_and_prunes_it(context: BuildContext, tmp_path: Path) -> None:
    built = no_build(stage(), context)
    layout, other = Cache(context.cache_root).layout, Cache(tmp_path / "other").layout
    (listed,) = list_entries(layout)
    assert (listed.kind, listed.name, listed.digest) == ("kernel", stage().kernel.name, built.digest)
    assert verify_cache(layout).damaged == ()
    archive = export_entries(layout, [built.digest], tmp_path / "one.tar").archive
    assert import_entries(other, archive, trust=True).added == (built.digest,)
    assert len(prune_cache(layout, PrunePolicy(max_bytes=0, grace_s=-1e9)).entries) == 1
    assert not no_build(stage(), context).cached


def test_a_damaged_file_is_made_anew(context: BuildContext) -> None:
    built = no_build(stage(), context)
    built.path.chmod(0o600)
    built.path.write_text("{}")
    assert not no_build(stage(), context).cached
    assert json.loads(built.path.read_text()) == {"kernel": stage().kernel.name}


def test_a_failure_is_kept_like_that_of_a_compiler(context: BuildContext) -> None:
    with pytest.raises(KernelFailure, match="no such operator") as caught:
        no_build(stage(), context, failure="no such operator")
    assert caught.value.code == "B010"
    assert "no such operator" in Path(str(caught.value.where)).read_text()
    assert list_entries(Cache(context.cache_root).layout) == ()


@pytest.mark.parametrize("name", ["kernel_build", "no_build", "no_build_key"])
def test_plugins_have_them(name: str) -> None:
    found: Callable[..., Any] = getattr(plugin, name)
    assert found.__name__ == name
