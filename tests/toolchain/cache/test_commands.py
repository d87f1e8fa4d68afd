"""``fmha cache`` ls, stats, verify, prune, why: their reports and their effects."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.audit import verify_cache
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind
from fmha_cli.toolchain.cache.layout import META, CacheLayout
from fmha_cli.toolchain.cache.listing import KindStats, cache_stats, list_entries
from fmha_cli.toolchain.cache.lock import try_lock
from fmha_cli.toolchain.cache.prune import DAY_S, PrunePolicy, prune_cache
from fmha_cli.toolchain.cache.store import BuildError, BuildProduct, Cache
from fmha_cli.toolchain.cache.why import KeyDifference, KeyStanding, explain_entry, explain_key

Make = Callable[..., Artifact]
NOW = 2_000_000_000.0


def flip(path: Path) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    path.chmod(0o400)


@pytest.fixture
def make(cache: Cache, make_key: Callable[..., BuildKey], write_product: Callable[..., BuildProduct]) -> Make:
    """Builds an entry of the given size whose last use is the given number of seconds before NOW."""

    def build(name: str, age: float = 0.0, size: int = 100, **changes: object) -> Artifact:
        key = make_key(name=name, **changes)
        artifact = cache.get_or_build(key, lambda work: write_product(work, b"x" * size))
        os.utime(artifact.path.parent, (NOW - age, NOW - age))
        return artifact

    return build


def prune(cache: Cache, **policy: object) -> tuple[list[str], list[str], list[str]]:
    """The removed names, the digests kept because of a lock, and the digests kept because of recent use."""
    done = prune_cache(cache.layout, PrunePolicy(**policy), lambda: NOW)  # type: ignore[arg-type]
    return [info.name for info in done.entries], list(done.kept_locked), list(done.kept_recent)


def names(cache: Cache) -> list[str]:
    return [info.name for info in list_entries(cache.layout)]


def test_ls(cache: Cache, make: Make) -> None:
    make("b")
    first = make("a", arch="sm_90a")
    a, b = list_entries(cache.layout)
    assert (a.name, b.name) == ("a", "b")
    assert (a.digest, a.arch, a.toolchain, a.build_ns, a.damage) == (
        first.digest,
        "sm_90a",
        "fake 1.0",
        1_250_000_000,
        (),
    )
    assert a.used_ns == NOW * 1e9
    assert a.size == sum(path.stat().st_size for path in first.path.parent.iterdir())
    assert a.created_ns > 0


def test_an_absent_cache_is_empty(tmp_path: Path) -> None:
    layout = CacheLayout(tmp_path / "none")
    assert list_entries(layout) == ()
    assert cache_stats(layout).total_bytes == 0
    assert verify_cache(layout).checked == 0
    assert prune_cache(layout, PrunePolicy(max_bytes=0, quarantine=True, failed=True)).freed_bytes == 0
    assert not layout.root.exists()


def test_ls_shows_damage_and_goes_on(cache: Cache, make: Make) -> None:
    make("a")
    flip(make("b").path.parent / META)
    damaged, sound = list_entries(cache.layout)
    assert damaged.name is None
    assert META in damaged.damage[0]
    assert sound.name == "a"


def test_stats_add_up(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    make("a", size=1000)
    flip(make("b").path)
    make("c")
    assert cache.lookup(make_key(name="b")) is None
    flip(make("d").path.parent / META)

    def fail(work: Path) -> BuildProduct:
        raise BuildError("no", why="no", log=None)

    with pytest.raises(KernelFailure):
        cache.get_or_build(make_key("bad"), fail)
    (cache.layout.tmp / "left").mkdir()
    (cache.layout.tmp / "left" / "file").write_bytes(b"12345")
    stats = cache_stats(cache.layout)
    assert (stats.entries, stats.damaged, stats.quarantined, stats.failed, stats.temporary) == (3, 1, 1, 1, 1)
    assert stats.temporary_bytes == 5
    assert stats.saved_ns == 2 * 1_250_000_000
    assert stats.oldest_ns is not None
    assert stats.newest_ns is not None
    assert stats.oldest_ns < stats.newest_ns
    on_disk = sum(path.stat().st_size for path in cache.layout.root.rglob("*") if path.is_file())
    assert stats.total_bytes == on_disk


def test_verify_lists_all_damage_and_changes_nothing(cache: Cache, make: Make) -> None:
    make("a")
    flip(make("b").path)
    flip(make("c").log)
    place = cache.layout.entry("f" * 64)
    place.parent.mkdir(exist_ok=True)
    place.write_text("a file in an entry's place")
    report = verify_cache(cache.layout)
    assert report.checked == 4
    assert {damage.digest for damage in report.damaged} >= {"f" * 64}
    assert len(report.damaged) == 3
    assert all(damage.reasons for damage in report.damaged)
    assert report.quarantined == ()
    assert verify_cache(cache.layout).damaged == report.damaged


def test_verify_with_fix_quarantines(cache: Cache, make: Make, notices: Callable[..., None]) -> None:
    make("a")
    bad = make("b")
    flip(bad.path)
    report = verify_cache(cache.layout, fix=True, notify=notices)
    assert [path.name.split(".")[0] for path in report.quarantined] == [bad.digest]
    assert report.quarantined[0].is_dir()
    assert not bad.path.exists()
    assert verify_cache(cache.layout).damaged == ()
    assert names(cache) == ["a"]


def test_verify_with_fix_leaves_what_is_locked(cache: Cache, make: Make) -> None:
    bad = make("b")
    flip(bad.path)
    with try_lock(cache.layout.lock(bad.digest)):
        report = verify_cache(cache.layout, fix=True)
    assert (report.busy, report.quarantined) == ((bad.digest,), ())
    assert bad.path.exists()


def test_prune_by_default_takes_no_entry(cache: Cache, make: Make) -> None:
    make("a", age=1000 * DAY_S)
    assert prune(cache) == ([], [], [])


def test_prune_by_age_since_last_use(cache: Cache, make: Make) -> None:
    make("old", age=10 * DAY_S)
    make("new", age=1 * DAY_S)
    assert prune(cache, max_age_s=5 * DAY_S)[0] == ["old"]
    assert names(cache) == ["new"]
    assert list(cache.layout.tmp.iterdir()) == []


def test_a_load_makes_an_entry_young(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    old = make("old", age=10 * DAY_S)
    before = old.path.parent.stat().st_mtime
    assert cache.lookup(make_key(name="old")) is not None
    assert old.path.parent.stat().st_mtime != before


def test_prune_by_size_takes_the_least_recently_used(cache: Cache, make: Make) -> None:
    for name, age in (("a", 3), ("b", 1), ("c", 2), ("d", 4)):
        make(name, age=age * DAY_S, size=10_000)
    sizes = [info.size for info in list_entries(cache.layout)]
    assert prune(cache, max_bytes=sum(sizes))[0] == []
    assert prune(cache, max_bytes=sum(sizes) - 1)[0] == ["d"]
    assert prune(cache, max_bytes=15_000)[0] == ["a", "c"]
    assert prune(cache, max_bytes=0)[0] == ["b"]


def test_prune_keeps_what_is_locked(cache: Cache, make: Make) -> None:
    held, free = make("held", age=DAY_S), make("free", age=DAY_S)
    with try_lock(cache.layout.lock(held.digest)):
        assert prune(cache, max_bytes=0) == (["free"], [held.digest], [])
    assert held.path.exists()
    assert not free.path.exists()
    assert cache.layout.lock(free.digest).exists(), "a lock file that is deleted protects nothing"
    assert prune(cache, max_bytes=0) == (["held"], [], [])


def test_prune_keeps_what_was_just_used(cache: Cache, make: Make) -> None:
    """A worker that has verified an entry must still find it a moment later."""
    young = make("young", age=500)
    make("older", age=700)
    assert prune(cache, max_bytes=0) == (["older"], [], [young.digest])
    assert prune(cache, max_bytes=0, grace_s=0.0) == (["young"], [], [])


def test_prune_sees_a_use_that_came_after_the_listing(
    cache: Cache, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = make("a", age=DAY_S)
    stale = list_entries(cache.layout)
    os.utime(entry.path.parent, (NOW, NOW))
    monkeypatch.setattr("fmha_cli.toolchain.cache.prune.list_entries", lambda layout: stale)
    assert prune(cache, max_bytes=0)[0] == []
    assert entry.path.exists()


def test_prune_dry_run_changes_nothing(cache: Cache, make: Make) -> None:
    make("a", age=DAY_S)
    (cache.layout.quarantine / "x").mkdir(parents=True)
    done = prune_cache(cache.layout, PrunePolicy(max_bytes=0, quarantine=True, dry_run=True), lambda: NOW)
    assert len(done.entries) == len(done.others) == 1
    assert done.freed_bytes == done.entries[0].size
    assert names(cache) == ["a"]
    assert (cache.layout.quarantine / "x").exists()


def test_prune_takes_old_temporary_things_only(cache: Cache) -> None:
    for name, inner_age in (("dead", 2), ("alive", 0.1)):
        work = cache.layout.tmp / name / "work"
        work.mkdir(parents=True)
        (work / "half").write_bytes(b"123")
        for path in (work / "half", work, work.parent):
            os.utime(path, (NOW - inner_age * DAY_S,) * 2)
    os.utime(cache.layout.tmp / "alive", (NOW - 9 * DAY_S,) * 2)
    cache.layout.toolchains.mkdir()
    for name in (".t.json.1234", "t.json"):
        (cache.layout.toolchains / name).write_bytes(b"12")
        os.utime(cache.layout.toolchains / name, (NOW - 2 * DAY_S,) * 2)
    done = prune_cache(cache.layout, PrunePolicy(), lambda: NOW)
    assert [path.name for path in done.others] == ["dead", ".t.json.1234"]
    assert done.freed_bytes == 5
    assert [path.name for path in cache.layout.tmp.iterdir()] == ["alive"]
    assert [path.name for path in cache.layout.toolchains.iterdir()] == ["t.json"]


def test_prune_quarantine_and_failures_when_asked(cache: Cache) -> None:
    for room in (cache.layout.quarantine, cache.layout.failed):
        (room / "x").mkdir(parents=True)
    prune(cache)
    assert (cache.layout.quarantine / "x").exists()
    prune(cache, quarantine=True)
    assert not (cache.layout.quarantine / "x").exists()
    assert (cache.layout.failed / "x").exists()
    prune(cache, failed=True)
    assert not (cache.layout.failed / "x").exists()


def plant_version_1(cache: Cache, built: Artifact, age: float) -> Path:
    """Place an entry as an older version of the package left it: under the same digest, in that version's folder."""
    old = cache.layout.root / "v1" / built.digest[:2] / built.digest[2:]
    shutil.copytree(built.path.parent, old)
    for path in (*old.iterdir(), old, old.parent, old.parent.parent):
        os.utime(path, (NOW - age, NOW - age))
    return old


def test_entries_of_an_older_version_are_never_hit(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    built = make("a")
    plant_version_1(cache, built, age=DAY_S)
    shutil.rmtree(built.path.parent)
    assert cache.lookup(make_key(name="a")) is None
    assert (names(cache), verify_cache(cache.layout).checked) == ([], 0)
    assert not list(cache.layout.digests())


def test_an_entry_of_an_older_version_in_the_place_of_a_new_one_is_damage(
    cache: Cache, make: Make, make_key: Callable[..., BuildKey]
) -> None:
    old = make("a", schema_version=1)
    key = make_key(name="a")
    place = cache.layout.entry(key.digest)
    place.parent.mkdir(exist_ok=True)
    old.path.parent.rename(place)
    assert cache.lookup(key) is None
    assert not place.exists()


def test_prune_removes_entries_of_older_versions(cache: Cache, make: Make) -> None:
    kept = make("a", age=DAY_S)
    plant_version_1(cache, kept, age=DAY_S)
    newer = cache.layout.root / "v3"
    newer.mkdir()
    before = cache_stats(cache.layout)
    assert before.outdated_bytes == before.entry_bytes
    told = prune_cache(cache.layout, PrunePolicy(dry_run=True), lambda: NOW)
    assert told.others == (cache.layout.root / "v1",)
    assert (cache.layout.root / "v1").exists()
    done = prune_cache(cache.layout, PrunePolicy(), lambda: NOW)
    assert (done.others, done.freed_bytes) == (told.others, before.outdated_bytes)
    assert not (cache.layout.root / "v1").exists()
    assert newer.exists()
    assert kept.path.exists()


def test_prune_keeps_older_entries_that_somebody_still_uses(cache: Cache, make: Make) -> None:
    old = plant_version_1(cache, make("a"), age=DAY_S)
    os.utime(old, (NOW - 10, NOW - 10))
    assert prune_cache(cache.layout, PrunePolicy(), lambda: NOW).others == ()
    assert old.exists()


def test_kinds_are_listed_and_counted(cache: Cache, make: Make) -> None:
    make("b")
    make("a", kind=BuildKind.PEAK_LOOPS, size=50)
    make("c", kind=BuildKind.PEAK_LOOPS, size=50)
    found = list_entries(cache.layout)
    assert [(info.kind, info.name) for info in found] == [("kernel", "b"), ("peak-loops", "a"), ("peak-loops", "c")]
    assert cache_stats(cache.layout).kinds == (
        KindStats("kernel", 1, found[0].size),
        KindStats("peak-loops", 2, found[1].size + found[2].size),
    )


def test_why_compares_things_of_one_kind(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    make("a")
    near = make("a", kind=BuildKind.EMULATOR, flags=("-O2",))
    wanted = make_key(name="a", kind=BuildKind.EMULATOR)
    why = explain_key(cache.layout, wanted)
    assert (why.standing, why.nearest) == (KeyStanding.DIFFERS, near.digest)
    assert why.differences == (KeyDifference("flags", ["-O2"], ["-O3", "-shared"]),)
    assert explain_key(cache.layout, make_key(name="a", kind=BuildKind.HOST_LIBRARY)).standing is KeyStanding.UNKNOWN


def test_why_compares_an_entry_with_its_nearest_relative(cache: Cache, make: Make) -> None:
    make("a", kind=BuildKind.KERNEL)
    alone = make("a", kind=BuildKind.EMULATOR, toolchain_version="g++ 12")
    assert explain_entry(cache.layout, alone.digest).nearest is None
    other = make("a", kind=BuildKind.EMULATOR, toolchain_version="g++ 13")
    why = explain_entry(cache.layout, other.digest)
    assert (why.standing, why.nearest) == (KeyStanding.HIT, alone.digest)
    assert why.differences == (KeyDifference("toolchain_version", "g++ 12", "g++ 13"),)
    flip(other.path)
    assert explain_entry(cache.layout, other.digest).standing is KeyStanding.DAMAGED
    assert explain_entry(cache.layout, "0" * 64).standing is KeyStanding.UNKNOWN


def test_why_hit(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    make("a")
    why = explain_key(cache.layout, make_key(name="a"))
    assert (why.standing, why.nearest, why.differences) == (KeyStanding.HIT, None, ())


def test_why_unknown(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    make("a")
    why = explain_key(cache.layout, make_key(name="b"))
    assert (why.standing, why.nearest) == (KeyStanding.UNKNOWN, None)


def test_why_names_the_parts_that_differ_from_the_nearest(
    cache: Cache, make: Make, make_key: Callable[..., BuildKey]
) -> None:
    make("a", arch="other", flags=("-O1",), fmha_version="0.9")
    near = make("a", flags=("-O2", "-shared"), identity={"family": "fwd", "signature": {"dtype": "bf16"}})
    why = explain_key(cache.layout, make_key(name="a"))
    assert (why.standing, why.nearest) == (KeyStanding.DIFFERS, near.digest)
    assert why.differences == (
        KeyDifference("flags", ["-O2", "-shared"], ["-O3", "-shared"]),
        KeyDifference("identity.algorithm", None, {"tile": [8, 16]}),
        KeyDifference("identity.signature.dtype", "bf16", "fp32"),
    )


def test_why_takes_the_newest_of_equally_near(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    make("a", arch="x")
    newest = make("a", arch="y")
    assert explain_key(cache.layout, make_key(name="a")).nearest == newest.digest


def test_why_damaged_quarantined_failed(cache: Cache, make: Make, make_key: Callable[..., BuildKey]) -> None:
    key = make_key(name="a")
    flip(make("a").path)
    damaged = explain_key(cache.layout, key)
    assert damaged.standing is KeyStanding.DAMAGED
    assert "artifact" in damaged.details[0]
    assert cache.lookup(key) is None
    quarantined = explain_key(cache.layout, key)
    assert quarantined.standing is KeyStanding.QUARANTINED
    assert Path(quarantined.details[0]).is_dir()

    def fail(work: Path) -> BuildProduct:
        raise BuildError("no", why="no", log=None)

    other = make_key("bad source", name="b")
    with pytest.raises(KernelFailure):
        cache.get_or_build(other, fail)
    failed = explain_key(cache.layout, other)
    assert failed.standing is KeyStanding.FAILED
    assert failed.details == (str(cache.layout.failure(other.digest)),)
