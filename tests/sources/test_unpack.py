"""Well-formed and malicious archives."""

from __future__ import annotations

import contextlib
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.sources import unpack
from fmha_cli.sources.faults import FetchError, UnsafeArchive, WrongContent
from fmha_cli.sources.pins import Pin
from fmha_cli.sources.unpack import unpack_tar, unpack_zip
from tests.sources.conftest import FILES, OTHERS, pin_for, tar_of, zip_of


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if not p.is_dir()}


def unpacked(tmp_path: Path, data: bytes, pin: Pin | None = None) -> dict[str, bytes]:
    file, into = tmp_path / "archive", tmp_path / "tree"
    file.write_bytes(data)
    into.mkdir()
    unpack_tar(pin or pin_for(data), file, into)
    return tree(into)


def test_only_the_kept_parts_are_written(tmp_path: Path) -> None:
    assert unpacked(tmp_path, tar_of({**OTHERS, **FILES})) == FILES


def test_modes_of_the_archive_are_not_taken_over(tmp_path: Path) -> None:
    unpacked(tmp_path, tar_of(FILES))
    for path in (tmp_path / "tree").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o7022 & ~0o022
        assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b"evil"
) -> Callable[[tarfile.TarFile], None]:
    def add(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        info.size = len(data) if kind == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(data) if kind == tarfile.REGTYPE else None)

    return add


HOSTILE = {
    "absolute": member("/tmp/fmha-evil"),
    "parent": member("p-1/include/../../../evil"),
    "parent first": member("../evil"),
    "parent among what is not kept": member("elsewhere/../../evil"),
    "backslash": member("p-1\\include\\evil"),
    "drive": member("C:/evil"),
    "too long": member("p-1/include/" + "x" * 300),
    "link": member("p-1/include/link", tarfile.SYMTYPE, "/etc/passwd"),
    "link inside": member("p-1/include/link", tarfile.SYMTYPE, "a.h"),
    "hard link": member("p-1/include/link", tarfile.LNKTYPE, "p-1/include/a.h"),
    "device": member("p-1/include/null", tarfile.CHRTYPE),
    "pipe": member("p-1/include/pipe", tarfile.FIFOTYPE),
    "twice": member("p-1/include/a.h"),
    "twice by another name": member("p-1/include/./a.h"),
    "file as folder": member("p-1/include/a.h/x"),
}


@pytest.mark.promise("A source is checked against its pin, and hostile archives are refused.")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(tmp_path: Path, name: str) -> None:
    room = replace(pin_for(tar_of(FILES)), files=10, bytes=10_000)
    with pytest.raises(UnsafeArchive):
        unpacked(tmp_path, tar_of(FILES, edit=HOSTILE[name]), room)
    written = tree(tmp_path / "tree")
    assert set(written) <= set(FILES)
    assert all(FILES[path] == data for path, data in written.items())
    assert {p.name for p in tmp_path.iterdir()} == {"archive", "tree"}
    assert not Path("/tmp/fmha-evil").exists()


@pytest.mark.parametrize("extra", [{"include/new.h": b"x"}, {"include/a.h": FILES["include/a.h"] + b"x"}])
def test_more_than_is_pinned_is_refused(tmp_path: Path, extra: dict[str, bytes]) -> None:
    with pytest.raises(UnsafeArchive):
        unpacked(tmp_path, tar_of({**FILES, **extra}), pin_for(tar_of(FILES)))


def test_links_that_are_not_kept_do_no_harm(tmp_path: Path) -> None:
    assert unpacked(tmp_path, tar_of(FILES, edit=member("p-1/docs/link", tarfile.SYMTYPE, "/etc"))) == FILES


def test_an_archive_that_grows_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "ARCHIVE_LIMIT", 10_000)
    with pytest.raises(UnsafeArchive, match="10000 bytes"):
        unpacked(tmp_path, tar_of({**FILES, "src/big": bytes(20_000)}))


@pytest.mark.parametrize("cut", [0, 10, 60, -20])
def test_a_tar_that_ends_early(tmp_path: Path, cut: int) -> None:
    data = tar_of(FILES)
    with pytest.raises(WrongContent):
        unpacked(tmp_path, data[:cut] if cut else b"", pin_for(data))


def zipped(tmp_path: Path, data: bytes, pinned: bytes | None = None) -> dict[str, bytes]:
    into = tmp_path / "tree"
    into.mkdir()
    unpack_zip(pin_for(pinned or data, "p.whl", ""), io.BytesIO(data), into)
    return tree(into)


def test_members_of_a_wheel(tmp_path: Path) -> None:
    assert zipped(tmp_path, zip_of({**OTHERS, **FILES})) == FILES


def linked() -> bytes:
    out = io.BytesIO(zip_of(FILES))
    with zipfile.ZipFile(out, "a") as archive:
        info = zipfile.ZipInfo("include/link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        linked(),
        zip_of({**FILES, "../evil": b""}),
        zip_of({**FILES, "/evil": b""}),
        zip_of({**FILES, "include/new": b""}),
    ],
    ids=["link", "parent", "absolute", "one more"],
)
def test_hostile_wheels_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(UnsafeArchive):
        zipped(tmp_path, data, zip_of(FILES))
    assert set(tree(tmp_path)) <= {f"tree/{name}" for name in FILES}


def test_a_changed_byte_of_a_member_is_noticed(tmp_path: Path) -> None:
    files = {"include/a.h": b"#pragma once\n" * 50}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("include/a.h", files["include/a.h"])
    data = bytearray(out.getvalue())
    data[data.index(b"#pragma")] ^= 1
    (tmp_path / "tree").mkdir()
    with pytest.raises(WrongContent, match="CRC"):
        unpack_zip(pin_for(bytes(data), "p.whl", "", files), io.BytesIO(bytes(data)), tmp_path / "tree")


GOOD_ZIP = zip_of(FILES)


@settings(max_examples=150)
@given(noise=st.binary(max_size=200), place=st.integers(0, 2000))
@pytest.mark.slow
@pytest.mark.ci
def test_a_damaged_wheel_is_refused_or_whole(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int
) -> None:
    data = bytearray(GOOD_ZIP)
    place = len(data) - min(place, len(data))
    data[place : place + len(noise)] = noise
    into = tmp_path_factory.mktemp("tree")
    with contextlib.suppress(FetchError):
        unpack_zip(pin_for(GOOD_ZIP, "p.whl", ""), io.BytesIO(bytes(data)), into)
    assert set(tree(into)) <= set(FILES)
