"""PTX next to an artifact: sealed, verified, exported and imported like the other files of its entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.entry import Damage, EntryMeta, verify_entry
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import ENTRY_FILES, PTX
from fmha_cli.toolchain.cache.store import BuildProduct, Cache

TEXT = b".version 9.0\n"


@pytest.fixture
def built(tmp_path: Path, make_key: Callable[..., BuildKey]) -> Artifact:
    def product(work: Path) -> BuildProduct:
        for name, data in {"a": b"a cubin", "log": b"$ compile\n", "p": TEXT}.items():
            (work / name).write_bytes(data)
        return BuildProduct(work / "a", work / "log", 1.0, None, work / "p")

    return Cache(tmp_path / "cache").get_or_build(make_key(), product)


def checked(built: Artifact) -> EntryMeta | Damage | None:
    return verify_entry(built.path.parent, built.digest)


def test_it_is_a_file_of_the_entry(built: Artifact) -> None:
    folder, meta = built.path.parent, checked(built)
    assert isinstance(meta, EntryMeta)
    assert sorted(path.name for path in folder.iterdir()) == sorted((*ENTRY_FILES, PTX))
    assert (folder / PTX).read_bytes() == TEXT
    assert (folder / PTX).stat().st_mode & 0o777 == 0o400
    assert meta.files[PTX].size == len(TEXT)


@pytest.mark.parametrize("fault", ["changed", "gone"])
def test_it_is_verified(built: Artifact, fault: str) -> None:
    path = built.path.with_name(PTX)
    path.unlink()
    if fault == "changed":
        path.write_bytes(TEXT.replace(b"9", b"8"))
        path.chmod(0o400)
    found = checked(built)
    assert isinstance(found, Damage)
    assert PTX in "; ".join(found.reasons)


def test_ptx_that_the_entry_does_not_name_is_a_stranger(tmp_path: Path, make_key: Callable[..., BuildKey]) -> None:
    def product(work: Path) -> BuildProduct:
        (work / "a").write_bytes(b"a cubin")
        (work / "log").write_bytes(b"")
        return BuildProduct(work / "a", work / "log", 1.0)

    made = Cache(tmp_path / "cache").get_or_build(make_key(), product)
    made.path.with_name(PTX).write_bytes(TEXT)
    found = checked(made)
    assert isinstance(found, Damage)
    assert found.reasons == (f"{PTX} does not belong here",)


def test_it_travels(built: Artifact, tmp_path: Path) -> None:
    here, there = Cache(tmp_path / "cache"), Cache(tmp_path / "there")
    archive = export_entries(here.layout, [built.digest], tmp_path / "kernels.tar").archive
    assert import_entries(there.layout, archive, trust=True).added == (built.digest,)
    found = there.lookup(built.digest)
    assert found is not None
    assert found.path.with_name(PTX).read_bytes() == TEXT
