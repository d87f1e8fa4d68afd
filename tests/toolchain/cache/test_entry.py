"""Every byte of an entry is checked on every load."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.entry import Damage, EntryMeta, read_meta, verify_entry
from fmha_cli.toolchain.cache.files import FileContent
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import ARTIFACT, ENTRY_FILES, LOG, META, SOURCE
from fmha_cli.toolchain.cache.store import Cache

MakeKey = Callable[..., BuildKey]


@pytest.fixture
def built(cache: Cache, make_key: MakeKey, write_product: Callable[..., object]) -> Artifact:
    return cache.get_or_build(make_key(), write_product)  # type: ignore[arg-type]


def rewrite(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(0o400)


def check(artifact: Artifact) -> EntryMeta | Damage:
    return verify_entry(artifact.path.parent, artifact.digest)


def reasons(artifact: Artifact) -> str:
    found = check(artifact)
    assert isinstance(found, Damage)
    return "; ".join(found.reasons)


def test_what_is_kept(built: Artifact, make_key: MakeKey) -> None:
    meta = check(built)
    assert isinstance(meta, EntryMeta)
    assert sorted(path.name for path in built.path.parent.iterdir()) == sorted(ENTRY_FILES)
    assert meta.parts == make_key().parts
    assert meta.files[ARTIFACT] == FileContent(built.sha256, len(b"library bytes"))
    assert (meta.build_ns, meta.peak_bytes) == (1_250_000_000, 4096)
    assert (built.path.parent / SOURCE).read_text() == make_key().spec.source
    assert built.log.read_bytes() == b"$ compile\n"
    assert built.path.parent == built.path.parents[3] / "v2" / built.digest[:2] / built.digest[2:]


def test_files_are_read_only(built: Artifact) -> None:
    assert {path.stat().st_mode & 0o777 for path in built.path.parent.iterdir()} == {0o400}


@pytest.mark.promise("A changed cache entry is built again, and a cache that others may write to is refused.")
def test_100_random_byte_flips_are_all_detected(built: Artifact) -> None:
    rng = random.Random(20240917)
    for number in range(100):
        path = built.path.parent / ENTRY_FILES[number % len(ENTRY_FILES)]
        sound = path.read_bytes()
        bad = bytearray(sound)
        bad[rng.randrange(len(bad))] ^= rng.randrange(1, 256)
        rewrite(path, bytes(bad))
        assert isinstance(check(built), Damage), (path.name, bad)
        rewrite(path, sound)
        assert isinstance(check(built), EntryMeta)


def test_every_single_byte_of_meta_counts(built: Artifact) -> None:
    """Every byte is flipped in the way that JSON readers most easily overlook: case and white space."""
    path = built.path.parent / META
    sound = path.read_bytes()
    for position in range(len(sound)):
        bad = bytearray(sound)
        bad[position] ^= 0x20 if chr(bad[position]).isalpha() else 0x01
        rewrite(path, bytes(bad))
        assert isinstance(read_meta(path.parent, built.digest), Damage), position


@pytest.mark.parametrize(
    "edit",
    [lambda raw: raw + b"\n", lambda raw: b" " + raw, lambda raw: raw[:-1], lambda raw: raw.replace(b":", b": ", 1)],
    ids=["newline", "space", "cut", "inner space"],
)
def test_equal_json_in_other_bytes_is_damage(built: Artifact, edit: Callable[[bytes], bytes]) -> None:
    path = built.path.parent / META
    rewrite(path, edit(path.read_bytes()))
    assert META in reasons(built)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema": NaN}', b"1" * 9999]
)
def test_garbage_in_meta_is_damage_and_no_crash(built: Artifact, raw: bytes) -> None:
    rewrite(built.path.parent / META, raw)
    assert META in reasons(built)


def forge(artifact: Artifact, **changes: object) -> None:
    """Change meta.json and give it a matching digest."""
    path = artifact.path.parent / META
    body = {name: value for name, value in json.loads(path.read_bytes()).items() if name != "self"} | changes
    rewrite(path, canonical_json({**body, "self": digest_of(body)}).encode() + b"\n")


def test_a_consistent_forgery_is_measured_by_the_files_and_the_name(built: Artifact, make_key: MakeKey) -> None:
    document = json.loads((built.path.parent / META).read_bytes())
    forge(built, created_ns=1)
    assert isinstance(check(built), EntryMeta)
    forge(built, created_ns="1")
    assert "another type" in reasons(built)
    forge(built, created_ns=1, key=make_key(arch="x86_64_v3").parts)
    assert "another key" in reasons(built)
    forge(built, created_ns=1, key=document["key"], digest="0" * 64)
    assert "another key" in reasons(built)
    forge(built, digest=document["digest"], schema="fmha.cache-entry/1")
    assert "schema" in reasons(built)
    forge(built, schema=document["schema"], files=document["files"] | {ARTIFACT: {"sha256": "0" * 64, "size": 13}})
    assert "SHA-256" in reasons(built)
    forge(built, files=document["files"] | {ARTIFACT: {"sha256": built.sha256, "size": 14}})
    assert "13 bytes instead of 14" in reasons(built)


def test_the_entry_of_another_key_under_this_name_is_damage(built: Artifact, cache: Cache, make_key: MakeKey) -> None:
    """This is what a cache would return if its names left out fields."""
    other = make_key(arch="x86_64_v3").digest
    place = cache.layout.entry(other)
    place.parent.mkdir(exist_ok=True)
    built.path.parent.rename(place)
    assert isinstance(verify_entry(place, other), Damage)


def test_the_source_must_be_the_keys(built: Artifact) -> None:
    """A changed source is damage even if meta.json lists its digest."""
    document = json.loads((built.path.parent / META).read_bytes())
    rewrite(built.path.parent / SOURCE, b"other")
    digest = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
    forge(built, files=document["files"] | {SOURCE: {"sha256": digest, "size": 5}})
    assert "not the source" in reasons(built)


@pytest.mark.parametrize("name", ENTRY_FILES)
def test_a_missing_file_is_damage(built: Artifact, name: str) -> None:
    (built.path.parent / name).unlink()
    assert f"{name} is missing" in reasons(built)


@pytest.mark.parametrize("name", ENTRY_FILES)
@pytest.mark.parametrize("kind", ["symlink", "directory", "fifo", "writable"])
def test_only_sealed_regular_files_count(built: Artifact, tmp_path: Path, name: str, kind: str) -> None:
    path = built.path.parent / name
    if kind == "writable":
        path.chmod(0o622)
    else:
        path.rename(tmp_path / "moved")
        if kind == "symlink":
            path.symlink_to(tmp_path / "moved")
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
    expected = {"symlink": "is a symlink", "writable": "is writable by others"}.get(kind, "is not a regular file")
    assert f"{name} {expected}" in reasons(built)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ENTRY_FILES)
def test_a_file_of_somebody_else_is_damage(built: Artifact, name: str) -> None:
    os.chown(built.path.parent / name, 12345, -1)
    assert f"{name} belongs to uid 12345" in reasons(built)


def test_a_stranger_in_the_directory_is_damage(built: Artifact) -> None:
    (built.path.parent / "more.so").write_bytes(b"")
    assert "more.so does not belong here" in reasons(built)


def test_all_reasons_are_given(built: Artifact) -> None:
    (built.path.parent / LOG).unlink()
    rewrite(built.path, b"x")
    assert "artifact" in reasons(built)
    assert "build.log" in reasons(built)


def test_no_entry_is_not_damage(tmp_path: Path) -> None:
    assert read_meta(tmp_path / "none", "0" * 64) is None
    assert verify_entry(tmp_path / "none", "0" * 64) is None


def test_a_file_in_an_entrys_place_is_damage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    found = verify_entry(tmp_path / "file", "0" * 64)
    assert isinstance(found, Damage)
    assert found.reasons == ("it is not a directory",)
