"""A user's own FlashAttention: which trees are taken, and what keeps their kernels apart from those of the pinned source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.backends.cuda import homes
from fmha_cli.backends.cuda import shop as shops
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.shop import Workshop, build, key_of, text_of, workshop
from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.installation import CheckState, Sourced, SourceState, Surroundings
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Edited
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.sources.homes import Known, home_files
from fmha_cli.sources.pins import pin_of
from fmha_cli.toolchain.cuda.toolchain import find_cuda
from tests.support.fakes.flash_attn.cubins import fake_cubin
from tests.support.fakes.played_cuda import site

KERNEL = family_kernels(load_arch("sm_90"), Family.FWD)[0]
PINNED = pin_of("flash-attn").digest


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of 20 headers, which are those of the only known revision."""
    root = tmp_path / "checkout"
    for folder in UPSTREAM.folders.values():
        (root / folder).mkdir(parents=True)
        for number in range(10):
            (root / folder / f"{number}.h").write_text(f"int x{number};\n")
    found = home_files({name: root / folder for name, folder in UPSTREAM.folders.items()})
    files = {name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in found.items()}
    monkeypatch.setattr(homes.Known, "load", staticmethod(lambda file: Known("2.8.3.post2", files)))
    return root


@pytest.fixture
def context(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> BuildContext:
    """Builds with a simulated NVRTC."""
    there = site(tmp_path / "site", shared_cache)
    found = find_cuda(tmp_path / "cache", folders=[str(there.folder)])
    (there.folder / "nvidia/cu13/lib/default.cubin").write_bytes(fake_cubin(KERNEL))
    monkeypatch.setattr(shops, "find_nvcc", lambda root: None)
    monkeypatch.setattr(shops, "find_cuda", lambda *of, **more: found)
    return BuildContext(tmp_path / "cache", offline=True)


def at(context: BuildContext, tree: Path, **more: str) -> BuildContext:
    options: Mapping[str, str] = {"fa-home": str(tree), **{name.replace("_", "-"): text for name, text in more.items()}}
    return replace(context, options=options, prepared=workshop(UPSTREAM, replace(context, options=options)))


def shop_of(context: BuildContext) -> Workshop:
    assert isinstance(context.prepared, Workshop)
    return context.prepared


def edit(tree: Path, files: int = 1) -> None:
    for number in range(files):
        (tree / "csrc/flash_attn/src" / f"{number}.h").write_text(f"int edited{number};\n")


def test_an_unedited_tree_shares_the_kernels_of_the_pinned_source(context: BuildContext, tree: Path) -> None:
    here = at(context, tree)
    assert shop_of(here).digests == (PINNED,)
    assert key_of(UPSTREAM, KERNEL, here).digest == key_of(UPSTREAM, KERNEL, context).digest
    made = build(UPSTREAM, KERNEL, here)
    assert (made.cached, made.edited) == (False, None)
    assert f"{tree}/csrc/flash_attn/src" in (made.log.read_text())


@pytest.mark.promise("An edited tree is built by the rules of its revision, marked, and compared with the old one.")
def test_an_edited_tree_has_kernels_of_its_own(context: BuildContext, tree: Path) -> None:
    before = build(UPSTREAM, KERNEL, at(context, tree))
    edit(tree)
    here = at(context, tree)
    made = build(UPSTREAM, KERNEL, here)
    own = shop_of(here).own
    assert own is not None
    assert (made.cached, made.edited) == (False, Edited(base="2.8.3.post2", tree=own.home.digest, files=1))
    assert made.digest != before.digest
    assert text_of(UPSTREAM, KERNEL, shop_of(here).digests).startswith(f"// flash-attn {own.home.digest}\n")
    again = build(UPSTREAM, KERNEL, here)
    assert (again.cached, again.edited) == (True, made.edited)


def test_a_tree_far_from_the_known_revision_needs_a_word(context: BuildContext, tree: Path) -> None:
    edit(tree, 3)
    with pytest.raises(EnvironmentProblem) as caught:
        at(context, tree)
    assert caught.value.code == "S106"
    assert "3 files differ from the 20 of 2.8.3.post2" in (caught.value.why or "")
    assert "--fa-as 2.8.3.post2" in (caught.value.help or "")
    assert shop_of(at(context, tree, fa_as="2.8.3.post2")).edited is not None
    with pytest.raises(UsageError, match="--fa-as 3: no such revision"):
        at(context, tree, fa_as="3")


def test_a_checkout_without_its_submodule(context: BuildContext, tree: Path) -> None:
    for path in (tree / "csrc/cutlass/include").iterdir():
        path.unlink()
    with pytest.raises(EnvironmentProblem) as caught:
        at(context, tree)
    assert caught.value.code == "S105"
    assert caught.value.what.endswith("lacks csrc/cutlass/include")
    assert "submodule" in (caught.value.help or "")


@pytest.mark.promise("A compile during which the user's tree changes is not kept.")
def test_what_changes_during_a_compile_is_not_kept(context: BuildContext, tree: Path) -> None:
    here = at(context, tree)
    edit(tree)
    with pytest.raises(EnvironmentProblem) as caught:
        build(UPSTREAM, KERNEL, here)
    assert caught.value.code == "S107"
    assert shop_of(here).cache.lookup(key_of(UPSTREAM, KERNEL, here)) is None


def test_doctor_and_sources_name_it(tmp_path: Path, tree: Path) -> None:
    edit(tree, 2)
    backend = CubinBackend(UPSTREAM, driven=False)
    assert isinstance(backend, Sourced)
    said: list[str] = []
    here = Surroundings(
        cache_root=tmp_path / "cache", environ={}, options={backend.home_option or "": str(tree)}, notify=said.append
    )
    found = backend.source_tree(here)
    assert (found.state, found.revision) == (SourceState.PRESENT, "2.8.3.post2")
    assert found.text == f"2.8.3.post2, edited (2 files differ), from --fa-home {tree}"
    assert found.notes == ("2.8.3.post2, edited (2 files differ): flash/0.h, flash/1.h",)
    _, check_tree = backend.checkers()
    (check,) = check_tree(here)
    assert (check.subject, check.state, check.what) == ("flash-attn", CheckState.OK, found.text)
    assert not list(check_tree(replace(here, options={})))
    assert len(backend.home_files(str(tree))) == 20
    (missing,) = check_tree(replace(here, options={"fa-home": str(tmp_path / "nothing")}))
    assert missing.state is CheckState.FAILED
