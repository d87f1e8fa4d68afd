"""Archives whose maker is a stranger: host code needs trust, and an entry never loses its origin."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fmha_null.kernels import null_kernel

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import Family
from fmha_cli.toolchain.cache.audit import verify_cache
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.layout import ARTIFACT, META
from fmha_cli.toolchain.cache.listing import list_entries
from fmha_cli.toolchain.cache.origin import Code, code_of, origin_of
from fmha_cli.toolchain.cache.prune import PrunePolicy, prune_cache
from fmha_cli.toolchain.cache.store import Cache
from tests.cli.conftest import Fmha

HONEST = null_kernel(DType.FP32, Family.FWD).name
SMALL = ("-b", "1", "-H", "1", "-s", "8", "-d", "8", "--dtype", "fp32", "--backend", "null", "--kernel", HONEST)
PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + (62).to_bytes(2, "little")
"""The start of a library for x86-64 (EM_X86_64 = 62)."""
CUBIN = PROGRAM[:18] + (190).to_bytes(2, "little")


def rewritten(archive: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The archive with changed members, every digest in it computed again as its maker would."""
    with tarfile.open(archive) as tar:
        members = {m.name: stream.read() for m in tar.getmembers() if (stream := tar.extractfile(m))}
    for name in [name for name in members if name.endswith(f"/{ARTIFACT}")]:
        members[name] = change(name, members[name])
        about = name.removesuffix(ARTIFACT) + META
        meta = json.loads(members[about])
        data = members[name]
        meta["files"][ARTIFACT] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        del meta["self"]
        members[about] = canonical_json({**meta, "self": digest_of(meta)}).encode("ascii") + b"\n"
    out = archive.with_name("swapped.tar")
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out


@pytest.fixture
def archive(fmha: Fmha, home: Path) -> Path:
    """A kernel that this machine built, exported from a cache that holds nothing else."""
    own = ("--cache-dir", str(home / "own"))
    assert fmha("build", *SMALL, *own).code == 0
    assert fmha("cache", "export", "mine.tar", "null:*", "--json", *own).code == 0
    return Path.cwd() / "mine.tar"


@pytest.fixture
def elsewhere(home: Path) -> tuple[str, str]:
    return ("--cache-dir", str(home / "other"))


def cache_of(elsewhere: tuple[str, str]) -> Cache:
    return Cache(Path(elsewhere[1]))


@pytest.mark.promise("Host code of an archive needs trust, and imported entries stay marked.")
def test_a_swapped_library_under_a_genuine_key_is_not_taken(
    fmha: Fmha, archive: Path, elsewhere: tuple[str, str]
) -> None:
    hostile = rewritten(archive, lambda name, data: PROGRAM + b"a stranger's code")
    done = fmha("cache", "import", hostile.name, *elsewhere)
    assert done.code == 2
    assert "B023" in done.err
    assert "host code" in done.err
    assert "--trust" in done.err
    assert HONEST in done.err
    assert list_entries(cache_of(elsewhere).layout) == ()
    assert not (Path(elsewhere[1]) / "imported").exists()


@pytest.mark.promise("Host code of an archive needs trust, and imported entries stay marked.")
@pytest.mark.slow
@pytest.mark.ci
def test_what_is_trusted_is_marked_wherever_it_is_seen(fmha: Fmha, archive: Path, elsewhere: tuple[str, str]) -> None:
    (held,) = fmha("cache", "import", archive.name, *elsewhere, "--trust", "--json").document["import"]["held"]
    assert (held["code"], held["name"]) == ("host", HONEST)
    (entry,) = fmha("cache", "ls", *elsewhere, "--json").document["entries"]
    assert entry["imported_from"] == "mine.tar"
    assert "mine.tar" in fmha("cache", "ls", *elsewhere).out
    verified = fmha("cache", "verify", *elsewhere, "--json").document["verify"]
    (one,) = verified["imported"]
    assert one["digest"] == entry["digest"]
    assert one["origin"]["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert "host code from mine.tar" in fmha("cache", "verify", *elsewhere).out
    done = fmha("run", *SMALL, *elsewhere, "--json")
    assert done.document["records"][0]["stages"][0]["imported_from"] == "mine.tar"
    assert "imported from mine.tar" in fmha("run", *SMALL, *elsewhere).out


def test_what_was_built_here_has_no_origin(fmha: Fmha, home: Path, archive: Path) -> None:
    own = ("--cache-dir", str(home / "own"), "--json")
    assert {e["imported_from"] for e in fmha("cache", "ls", *own).document["entries"]} == {None}
    assert fmha("cache", "verify", *own).document["verify"]["imported"] == []
    assert fmha("cache", "import", archive.name, "--trust", *own).document["import"]["added"] == []
    assert {e["imported_from"] for e in fmha("cache", "ls", *own).document["entries"]} == {None}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (PROGRAM, Code.HOST),
        (CUBIN, Code.DEVICE),
        (PROGRAM[:18] + (224).to_bytes(2, "little"), Code.DEVICE),
        (b"", Code.HOST),
        (b"\x7fELF", Code.HOST),
        (b"#!/bin/sh\n", Code.HOST),
        (b"MZ" + CUBIN, Code.HOST),
        (b"#!/x" + CUBIN[4:], Code.HOST),
        (PROGRAM[:18] + (183).to_bytes(2, "little"), Code.HOST),
    ],
)
def test_the_bytes_decide_who_executes_a_file(tmp_path: Path, data: bytes, code: Code) -> None:
    path = tmp_path / "artifact"
    path.write_bytes(data)
    assert code_of(path) is code


def test_device_code_needs_no_trust(archive: Path, elsewhere: tuple[str, str]) -> None:
    layout = cache_of(elsewhere).layout
    done = import_entries(layout, rewritten(archive, lambda name, data: CUBIN))
    assert len(done.added) == 1
    assert origin_of(layout, done.added[0]) is not None


def test_an_archive_that_is_cut_short_is_refused(archive: Path, elsewhere: tuple[str, str]) -> None:
    layout = cache_of(elsewhere).layout
    whole = lzma.compress(archive.read_bytes())
    packed = archive.with_name("short.tar.xz")
    for lost in (1, 2, 12, 13, 24):
        packed.write_bytes(whole[:-lost])
        with pytest.raises(UsageError, match="not imported") as caught:
            import_entries(layout, packed, trust=True)
        assert "cut short" in str(caught.value.why)
    packed.write_bytes(whole + b"more")
    with pytest.raises(UsageError):
        import_entries(layout, packed, trust=True)
    packed.write_bytes(archive.read_bytes() + b"more")
    with pytest.raises(UsageError) as caught:
        import_entries(layout, packed, trust=True)
    assert "behind its end mark" in str(caught.value.why)
    assert list_entries(layout) == ()
    packed.write_bytes(whole)
    assert len(import_entries(layout, packed, trust=True).added) == 1


def test_an_origin_lasts_as_long_as_its_entry(
    fmha: Fmha, archive: Path, elsewhere: tuple[str, str], home: Path
) -> None:
    cache = cache_of(elsewhere)
    (digest,) = import_entries(cache.layout, archive, trust=True).added
    again = export_entries(cache.layout, [digest], home / "again.tar").archive
    assert import_entries(cache.layout, again, trust=True).present == (digest,)
    origin = origin_of(cache.layout, digest)
    assert origin is not None
    assert origin.archive == "mine.tar"
    note = cache.layout.imported / digest
    note.write_bytes(b"{")
    damaged = origin_of(cache.layout, digest)
    assert damaged is not None
    assert damaged.archive == "an unknown archive"
    artifact = cache.layout.entry(digest) / ARTIFACT
    artifact.chmod(0o600)
    artifact.write_bytes(b"damage")
    assert verify_cache(cache.layout, fix=True).imported[0].digest == digest
    assert fmha("run", *SMALL, *elsewhere, "--json").document["records"][0]["stages"][0]["imported_from"] is None
    assert origin_of(cache.layout, digest) is None


def test_prune_removes_an_origin_without_an_entry(archive: Path, elsewhere: tuple[str, str]) -> None:
    layout = cache_of(elsewhere).layout
    (digest,) = import_entries(layout, archive, trust=True).added
    layout.entry(digest).rename(layout.root / "away")
    assert layout.imported / digest in prune_cache(layout, PrunePolicy()).others
    assert origin_of(layout, digest) is None
