"""Export and import, and malicious archives."""

from __future__ import annotations

import hashlib
import io
import lzma
import random
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, UsageError
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.audit import verify_cache
from fmha_cli.toolchain.cache.exporting import PREFIX, export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import ARTIFACT, ENTRY_FILES, SCHEMA_VERSION
from fmha_cli.toolchain.cache.store import BuildProduct, Cache

MakeKey = Callable[..., BuildKey]


@pytest.fixture
def built(cache: Cache, make_key: MakeKey, write_product: Callable[..., BuildProduct]) -> list[Artifact]:
    return [cache.get_or_build(make_key(arch=arch), write_product) for arch in ("sm_90", "sm_90a", "gfx942")]


@pytest.fixture
def archive(cache: Cache, built: list[Artifact], tmp_path: Path) -> Path:
    return export_entries(cache.layout, [a.digest for a in built], tmp_path / "kernels.tar").archive


@pytest.fixture
def other(tmp_path: Path, notices: Any) -> Cache:
    return Cache(tmp_path / "other", notices)


def members(archive: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(archive) as tar:
        return [(m, stream.read() if (stream := tar.extractfile(m)) else b"") for m in tar.getmembers()]


def write_tar(path: Path, content: list[tuple[tarfile.TarInfo, bytes]], **options: Any) -> Path:
    with tarfile.open(path, "w", **options) as tar:
        for member, data in content:
            tar.addfile(member, io.BytesIO(data))
    return path


def is_untouched(cache: Cache, tmp_path: Path) -> bool:
    """Whether nothing was imported, left over or written outside."""
    layout = cache.layout
    inside = [path for room in (layout.entries, layout.tmp) if room.exists() for path in room.iterdir()]
    return not inside and not (tmp_path / "evil").exists()


def refused(cache: Cache, archive: Path, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        import_entries(cache.layout, archive, **options, trust=True)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.where == str(archive)
    return caught.value.why or ""


def test_round_trip(other: Cache, built: list[Artifact], archive: Path, make_key: MakeKey) -> None:
    done = import_entries(other.layout, archive, trust=True)
    assert (done.added, done.present, done.dry_run) == (tuple(sorted(a.digest for a in built)), (), False)
    assert done.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert [one.digest for one in done.held] == list(done.added)
    found = other.lookup(make_key(arch="sm_90a"))
    assert found is not None
    assert found.path.read_bytes() == b"library bytes"
    assert other.layout.root in found.path.parents
    assert {path.stat().st_mode & 0o777 for path in found.path.parent.iterdir()} == {0o400}
    assert verify_cache(other.layout).checked == 3
    assert list(other.layout.tmp.iterdir()) == []
    again = import_entries(other.layout, archive, trust=True)
    assert again == replace(done, added=(), present=done.added)


def test_equal_entries_give_equal_archives(cache: Cache, built: list[Artifact], archive: Path, tmp_path: Path) -> None:
    backwards = [a.digest for a in reversed(built)] * 2
    again = export_entries(cache.layout, backwards, tmp_path / "again.tar")
    assert again.archive.read_bytes() == archive.read_bytes()
    assert again.size == archive.stat().st_size
    for member, _ in members(archive):
        assert (member.mtime, member.uid, member.gid, member.uname, member.mode) == (0, 0, 0, "", 0o400)


def test_an_archive_of_an_import_is_the_same_archive(
    other: Cache, built: list[Artifact], archive: Path, tmp_path: Path
) -> None:
    import_entries(other.layout, archive, trust=True)
    again = export_entries(other.layout, [a.digest for a in built], tmp_path / "again.tar").archive
    assert again.read_bytes() == archive.read_bytes()


def test_a_compressed_archive_brings_the_same(
    cache: Cache, other: Cache, built: list[Artifact], archive: Path, tmp_path: Path
) -> None:
    packed = export_entries(cache.layout, [a.digest for a in built], tmp_path / "kernels.tar.xz")
    assert packed.size == packed.archive.stat().st_size < archive.stat().st_size / 4
    assert lzma.decompress(packed.archive.read_bytes()) == archive.read_bytes()
    assert import_entries(other.layout, packed.archive, trust=True).added == tuple(sorted(a.digest for a in built))
    assert verify_cache(other.layout).damaged == ()


@pytest.mark.slow
@pytest.mark.ci
def test_compressed_archives_that_mean_harm(other: Cache, archive: Path, tmp_path: Path) -> None:
    packed = tmp_path / "bad.tar.xz"
    whole = lzma.compress(archive.read_bytes())
    packed.write_bytes(whole[: len(whole) // 2])
    assert "too early" in refused(other, packed)
    packed.write_bytes(whole[:200] + bytes(50) + whole[250:])
    assert "decompressed" in refused(other, packed)
    packed.write_bytes(lzma.compress(bytes(512), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**30}]))
    assert "decompressed" in refused(other, packed)  # its decoder would need 1 GiB
    packed.write_bytes(lzma.compress(archive.read_bytes()))
    assert "unpacks to more than" in refused(other, packed, max_bytes=1000)
    assert is_untouched(other, tmp_path)


def test_export_leaves_damage_out_and_says_so(cache: Cache, built: list[Artifact], tmp_path: Path) -> None:
    built[0].path.chmod(0o600)
    built[0].path.write_bytes(b"library byteZ")
    built[0].path.chmod(0o400)
    done = export_entries(cache.layout, [a.digest for a in built], tmp_path / "k.tar")
    assert [damage.digest for damage in done.skipped] == [built[0].digest]
    assert set(done.digests) == {built[1].digest, built[2].digest}
    assert len(members(done.archive)) == 2 * len(ENTRY_FILES)


def test_export_of_what_is_not_there(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cache entry"):
        export_entries(cache.layout, ["0" * 64], tmp_path / "k.tar")
    assert [path for path in tmp_path.iterdir() if "k.tar" in path.name] == []


def test_export_to_an_impossible_place(cache: Cache, built: list[Artifact], tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem):
        export_entries(cache.layout, [built[0].digest], tmp_path / "no" / "k.tar")


def test_import_keeps_a_sound_entry_and_replaces_a_damaged_one(
    cache: Cache, built: list[Artifact], archive: Path, notices: Any
) -> None:
    built[0].path.chmod(0o600)
    built[0].path.write_bytes(b"library byteZ")
    would = import_entries(cache.layout, archive, notify=notices, dry_run=True)
    done = import_entries(cache.layout, archive, notify=notices, trust=True)
    assert done.added == would.added == (built[0].digest,)
    assert set(done.present) == set(would.present) == {built[1].digest, built[2].digest}
    assert verify_cache(cache.layout).damaged == ()


@pytest.mark.promise("`fmha cache import` verifies every entry, and refuses hostile archives.")
@pytest.mark.parametrize(("version", "help"), [(1, "export it again"), (SCHEMA_VERSION + 1, "update fmha")])
@pytest.mark.parametrize("position", [0, -1])
def test_an_archive_of_another_version_is_refused_by_name(
    other: Cache, archive: Path, tmp_path: Path, version: int, help: str, position: int
) -> None:
    content = members(archive)
    member = content[position][0]
    member.name = member.name.replace(f"/v{SCHEMA_VERSION}/", f"/v{version}/")
    with pytest.raises(UsageError) as caught:
        import_entries(other.layout, write_tar(tmp_path / "old.tar", content), trust=True)
    assert (caught.value.code, caught.value.where) == ("B022", str(tmp_path / "old.tar"))
    assert f"version {version}" in (caught.value.why or "")
    assert help in (caught.value.help or "")
    assert is_untouched(other, tmp_path)


def renamed(name: str) -> Callable[[tarfile.TarInfo], None]:
    def edit(member: tarfile.TarInfo) -> None:
        member.name = name

    return edit


def typed(kind: bytes, target: str = "") -> Callable[[tarfile.TarInfo], None]:
    def edit(member: tarfile.TarInfo) -> None:
        member.type, member.linkname, member.size = kind, target, 0

    return edit


D = "0" * 64

EVIL: dict[str, tuple[Callable[[tarfile.TarInfo], None], str]] = {
    "absolute": (renamed("/evil"), "no export writes"),
    "dots": (renamed("../../evil"), "no export writes"),
    "dots inside": (renamed(f"{PREFIX}/{D}/../../../../evil"), "no export writes"),
    "dots as digest": (renamed(f"{PREFIX}/../artifact"), "no export writes"),
    "other file": (renamed(f"{PREFIX}/{D}/evil.so"), "no export writes"),
    "other root": (renamed(f"v1/{D}/artifact"), "no export writes"),
    "upper case digest": (renamed(f"{PREFIX}/{'A' * 64}/artifact"), "no export writes"),
    "short digest": (renamed(f"{PREFIX}/{'0' * 63}/artifact"), "no export writes"),
    "line end": (renamed(f"{PREFIX}/{D}/artifact\n"), "no export writes"),
    "directory": (typed(tarfile.DIRTYPE), "not a plain file"),
    "symlink": (typed(tarfile.SYMTYPE, "/etc/passwd"), "not a plain file"),
    "hard link": (typed(tarfile.LNKTYPE, "/etc/passwd"), "not a plain file"),
    "character device": (typed(tarfile.CHRTYPE), "not a plain file"),
    "block device": (typed(tarfile.BLKTYPE), "not a plain file"),
    "fifo": (typed(tarfile.FIFOTYPE), "not a plain file"),
    "contiguous": (typed(tarfile.CONTTYPE), "not a plain file"),
    "sparse": (typed(tarfile.GNUTYPE_SPARSE), "not a plain file"),
    "unknown type": (typed(b"Z"), "not a plain file"),
}


@pytest.mark.promise("`fmha cache import` verifies every entry, and refuses hostile archives.")
@pytest.mark.sampled(10, ci="all")
@pytest.mark.parametrize("case", EVIL)
@pytest.mark.parametrize("position", [0, 5, -1])
def test_harmful_members_are_refused_wherever_they_stand(
    other: Cache, archive: Path, tmp_path: Path, case: str, position: int
) -> None:
    edit, words = EVIL[case]
    content = members(archive)
    edit(content[position][0])
    assert words in refused(other, write_tar(tmp_path / "evil.tar", content))
    assert is_untouched(other, tmp_path)


@pytest.mark.parametrize("case", ["absolute", "dots", "symlink", "hard link", "fifo"])
def test_harmful_members_beside_sound_entries(other: Cache, archive: Path, tmp_path: Path, case: str) -> None:
    extra = tarfile.TarInfo(f"{PREFIX}/{D}/artifact")
    EVIL[case][0](extra)
    refused(other, write_tar(tmp_path / "evil.tar", [*members(archive), (extra, b"")]))
    assert is_untouched(other, tmp_path)


@pytest.mark.parametrize("headers", [{"path": "/evil"}, {"size": "999999999999"}, {"linkpath": "/etc/passwd"}], ids=str)
def test_extended_headers_are_refused(other: Cache, archive: Path, tmp_path: Path, headers: dict[str, str]) -> None:
    content = members(archive)
    content[0][0].pax_headers = headers
    evil = write_tar(tmp_path / "evil.tar", content, format=tarfile.PAX_FORMAT)
    assert refused(other, evil)
    assert is_untouched(other, tmp_path)


def test_a_member_that_comes_twice(other: Cache, archive: Path, tmp_path: Path) -> None:
    content = members(archive)
    assert "comes twice" in refused(other, write_tar(tmp_path / "evil.tar", [*content, content[0]]))
    assert is_untouched(other, tmp_path)


@pytest.mark.parametrize("index", range(4))
def test_an_incomplete_entry(other: Cache, archive: Path, tmp_path: Path, index: int) -> None:
    content = members(archive)
    name = content[index][0].name.rpartition("/")[2]
    assert f"lacks {name}" in refused(other, write_tar(tmp_path / "evil.tar", content[:index] + content[index + 1 :]))
    assert is_untouched(other, tmp_path)


def test_an_entry_under_another_key(other: Cache, archive: Path, tmp_path: Path) -> None:
    content = members(archive)[:4]
    for member, _ in content:
        member.name = f"{PREFIX}/{D}/{member.name.rpartition('/')[2]}"
    assert "belongs to another key" in refused(other, write_tar(tmp_path / "evil.tar", content))
    assert is_untouched(other, tmp_path)


def test_a_changed_artifact(other: Cache, archive: Path, tmp_path: Path) -> None:
    content = [(m, b"evil library!" if m.name.endswith(ARTIFACT) else data) for m, data in members(archive)]
    assert "is damaged" in refused(other, write_tar(tmp_path / "evil.tar", content))
    assert is_untouched(other, tmp_path)


def test_the_size_limit_holds(other: Cache, archive: Path, tmp_path: Path) -> None:
    total = sum(len(data) for _, data in members(archive))
    assert "unpacks to more than" in refused(other, archive, max_bytes=total - 1)
    assert is_untouched(other, tmp_path)
    assert len(import_entries(other.layout, archive, max_bytes=total, trust=True).added) == 3


@pytest.mark.parametrize("size", [2**40, -1, -(2**40)])
def test_a_header_that_lies_about_its_size(other: Cache, archive: Path, tmp_path: Path, size: int) -> None:
    content = members(archive)
    content[0][0].size = size
    header = content[0][0].tobuf(tarfile.GNU_FORMAT)
    evil = tmp_path / "evil.tar"
    evil.write_bytes(header + archive.read_bytes()[512:])
    assert refused(other, evil)
    assert is_untouched(other, tmp_path)


@pytest.mark.parametrize(
    "raw", [b"", b"x" * 100, b"x" * 512, b"\0" * 511, random.Random(1).randbytes(2048), b"\x1f\x8b" + b"0" * 600]
)
def test_what_is_no_tar(other: Cache, tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "k.tar").write_bytes(raw)
    assert refused(other, tmp_path / "k.tar")


def test_an_empty_archive_brings_nothing(other: Cache, tmp_path: Path) -> None:
    assert import_entries(other.layout, write_tar(tmp_path / "k.tar", []), trust=True).held == ()


def test_a_missing_archive(other: Cache, tmp_path: Path) -> None:
    assert "cannot be opened" in refused(other, tmp_path / "none.tar")
    assert "cannot be opened" in refused(other, tmp_path)


def test_every_truncation_is_refused(other: Cache, archive: Path, tmp_path: Path) -> None:
    raw = archive.read_bytes()
    end = raw.rstrip(b"\0")
    cut = tmp_path / "cut.tar"
    for length in [*range(0, len(end), 509), len(end)]:
        cut.write_bytes(raw[:length])
        assert "it ends" in refused(other, cut)
        assert is_untouched(other, tmp_path)


@pytest.mark.promise("`fmha cache import` verifies every entry, and refuses hostile archives.")
def test_no_flipped_byte_brings_a_damaged_entry(other: Cache, archive: Path, tmp_path: Path) -> None:
    """A flip may hit padding or an unused header field; any imported entry must still be intact."""
    raw, rng = archive.read_bytes(), random.Random(3)
    sound = {hashlib.sha256(data).hexdigest() for _, data in members(archive)}
    flipped = tmp_path / "flipped.tar"
    for _ in range(30):
        bad = bytearray(raw)
        bad[rng.randrange(len(raw))] ^= rng.randrange(1, 256)
        flipped.write_bytes(bad)
        with suppress(UsageError):
            import_entries(other.layout, flipped, trust=True)
        assert list(other.layout.tmp.iterdir()) == []
    files = [path for path in other.layout.entries.rglob("*") if path.is_file()]
    assert {hashlib.sha256(path.read_bytes()).hexdigest() for path in files} <= sound
