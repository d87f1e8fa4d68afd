"""Look up, build once, publish: the protocol of one process and its failures."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, Interrupted, KernelFailure
from fmha_cli.toolchain.cache.files import remove_tree
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import ARTIFACT, ENTRY_FILES, LOG, META, SOURCE
from fmha_cli.toolchain.cache.lock import try_lock
from fmha_cli.toolchain.cache.publish import quarantine_if_damaged
from fmha_cli.toolchain.cache.store import BuildError, BuildProduct, Cache
from fmha_cli.toolchain.notice import Notice, NoticeKind

MakeKey = Callable[..., BuildKey]
Builder = Callable[..., BuildProduct]


def never(work: Path) -> BuildProduct:
    raise AssertionError("built again")


def flip(path: Path) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    path.chmod(0o400)


def left_in(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir()) if path.exists() else []


@pytest.mark.promise("README: The first run compiles the kernel.")
def test_miss_build_hit(cache: Cache, make_key: MakeKey, write_product: Builder) -> None:
    key = make_key()
    assert cache.lookup(key) is None
    built = cache.get_or_build(key, write_product)
    assert (built.cached, built.digest, built.build_seconds) == (False, key.digest, 1.25)
    assert built.path.read_bytes() == b"library bytes"
    again = cache.get_or_build(key, never)
    assert again.cached
    assert (again.path, again.sha256, again.log, again.build_seconds) == (built.path, built.sha256, built.log, 1.25)
    assert cache.lookup(key) == again
    assert cache.lookup(key.digest) == again
    assert left_in(cache.layout.tmp) == []


def test_another_key_is_another_entry(cache: Cache, make_key: MakeKey, write_product: Builder) -> None:
    first = cache.get_or_build(make_key(arch="sm_90"), write_product)
    second = cache.get_or_build(make_key(arch="sm_90a"), write_product)
    assert not second.cached
    assert first.path != second.path


@pytest.mark.promise("A changed cache entry is built again, and a cache that others may write to is refused.")
@pytest.mark.parametrize("name", ENTRY_FILES)
def test_damage_is_quarantined_said_and_rebuilt(
    cache: Cache, make_key: MakeKey, write_product: Builder, notices: Any, name: str
) -> None:
    key = make_key()
    built = cache.get_or_build(key, write_product)
    flip(built.path.parent / name)
    assert cache.lookup(key) is None
    assert [notice.kind for notice in notices.said] == [NoticeKind.QUARANTINED]
    assert name in notices.said[0].text
    (away,) = cache.layout.quarantine.iterdir()
    assert away.name.startswith(key.digest)
    assert (away / ARTIFACT).exists()
    rebuilt = cache.get_or_build(key, write_product)
    assert not rebuilt.cached
    assert cache.lookup(key) is not None


def test_get_or_build_repairs_at_once(cache: Cache, make_key: MakeKey, write_product: Builder) -> None:
    built = cache.get_or_build(make_key(), write_product)
    flip(built.path)
    assert cache.get_or_build(make_key(), write_product).cached is False
    assert built.path.read_bytes() == b"library bytes"


def test_a_file_in_an_entrys_place_is_moved_away(cache: Cache, make_key: MakeKey, write_product: Builder) -> None:
    place = cache.layout.entry(make_key().digest)
    place.parent.mkdir(parents=True)
    place.write_text("not a directory")
    assert cache.get_or_build(make_key(), write_product).path.read_bytes() == b"library bytes"
    assert len(left_in(cache.layout.quarantine)) == 1


def test_a_sound_entry_is_never_quarantined(
    cache: Cache, make_key: MakeKey, write_product: Builder, notices: Any
) -> None:
    """If two processes see the same damage, the second must not quarantine the entry that the first repaired."""
    built = cache.get_or_build(make_key(), write_product)
    assert quarantine_if_damaged(cache.layout, built.digest, notices) is None
    assert built.path.exists()
    assert notices.said == []


def test_damage_that_was_locked_at_the_lookup_is_repaired_by_the_build(
    cache: Cache, make_key: MakeKey, write_product: Builder
) -> None:
    built = cache.get_or_build(make_key(), write_product)
    flip(built.path)
    impatient = Cache(cache.layout.root, patience=0.0)
    with try_lock(cache.layout.lock(built.digest)):
        assert impatient.get_or_build(make_key(), write_product).cached is False
    assert cache.lookup(make_key()) is not None
    assert len(left_in(cache.layout.quarantine)) == 1


def test_lookup_leaves_damage_to_the_holder_of_the_lock(
    cache: Cache, make_key: MakeKey, write_product: Builder
) -> None:
    key = make_key()
    flip(cache.get_or_build(key, write_product).path)
    with try_lock(cache.layout.lock(key.digest)):
        assert cache.lookup(key) is None
        assert left_in(cache.layout.quarantine) == []


@contextmanager
def no_lock(self: object, still_wanted: object = None) -> Iterator[bool]:
    yield False


def test_without_any_lock_the_loser_of_the_rename_uses_the_winners(
    cache: Cache, make_key: MakeKey, write_product: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Correctness must rest on the rename alone."""
    monkeypatch.setattr("fmha_cli.toolchain.cache.lock.WaitingLock.hold", no_lock)
    key = make_key()

    def overtaken(work: Path) -> BuildProduct:
        cache.get_or_build(key, lambda other: write_product(other, b"the winner's"))
        return write_product(work, b"the loser's")

    artifact = cache.get_or_build(key, overtaken)
    assert artifact.cached
    assert artifact.path.read_bytes() == b"the winner's"
    assert left_in(cache.layout.tmp) == []
    assert left_in(cache.layout.quarantine) == []


def test_a_damaged_winner_is_replaced(
    cache: Cache, make_key: MakeKey, write_product: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmha_cli.toolchain.cache.lock.WaitingLock.hold", no_lock)
    key = make_key()

    def overtaken(work: Path) -> BuildProduct:
        flip(cache.get_or_build(key, lambda other: write_product(other, b"the winner's")).path)
        return write_product(work, b"the loser's")

    artifact = cache.get_or_build(key, overtaken)
    assert not artifact.cached
    assert artifact.path.read_bytes() == b"the loser's"


def test_many_threads_build_once_and_wait_aloud(
    cache: Cache, make_key: MakeKey, write_product: Builder, notices: Any
) -> None:
    key = make_key()
    builds: list[Path] = []
    others_wait = threading.Event()

    def listen(notice: Notice) -> None:
        notices(notice)
        others_wait.set()

    cache = Cache(cache.layout.root, listen)

    def slow(work: Path) -> BuildProduct:
        builds.append(work)
        assert others_wait.wait(30)
        return write_product(work)

    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(cache.get_or_build(key, slow))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(builds), len(results)) == (1, 4)
    waiting = [notice for notice in notices.said if notice.kind is NoticeKind.WAITING]
    assert waiting
    assert "another thread of this process" in waiting[0].text
    assert "since 2" in waiting[0].text
    assert waiting[0].digest == key.digest


def test_waiting_can_be_cancelled(cache: Cache, make_key: MakeKey) -> None:
    cancel = threading.Event()
    cancel.set()
    with try_lock(cache.layout.lock(make_key().digest)), pytest.raises(Interrupted):
        cache.get_or_build(make_key(), never, cancel)


def test_impatience_builds_without_the_lock(
    tmp_path: Path, notices: Any, make_key: MakeKey, write_product: Builder
) -> None:
    cache = Cache(tmp_path / "cache", notices, patience=0.0)
    with try_lock(cache.layout.lock(make_key().digest)):
        assert not cache.get_or_build(make_key(), write_product).cached
    assert notices.kinds() == [NoticeKind.WAITING, NoticeKind.UNLOCKED]


def test_a_failed_build_keeps_log_and_source_and_leads_with_the_error(cache: Cache, make_key: MakeKey) -> None:
    key = make_key("int broken")

    def fail(work: Path) -> BuildProduct:
        (work / "log").write_text("$ g++ ...\nsource.cpp:1:1: error: broken\nnote: more\n")
        raise BuildError("source.cpp:1:1: error: broken", why="the compiler exited with status 1", log=work / "log")

    with pytest.raises(KernelFailure) as caught:
        cache.get_or_build(key, fail)
    log = cache.layout.failed / key.digest / LOG
    assert str(caught.value) == f"source.cpp:1:1: error: broken [log: {log}]"
    assert caught.value.exit_code == ExitCode.FAILED
    assert caught.value.where == str(log)
    assert key.spec.name in (caught.value.why or "")
    assert "note: more" in log.read_text()
    assert (log.parent / SOURCE).read_text() == "int broken"
    assert cache.lookup(key) is None
    assert left_in(cache.layout.tmp) == []


def test_a_success_removes_the_old_failure(cache: Cache, make_key: MakeKey, write_product: Builder) -> None:
    def fail(work: Path) -> BuildProduct:
        raise BuildError("no memory", why="killed", log=None)

    with pytest.raises(KernelFailure):
        cache.get_or_build(make_key(), fail)
    assert "no memory" in (cache.layout.failure(make_key().digest) / LOG).read_text()
    cache.get_or_build(make_key(), write_product)
    assert left_in(cache.layout.failed) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted("stop"), RuntimeError("defect")], ids=repr)
def test_any_exception_of_the_builder_leaves_nothing(cache: Cache, make_key: MakeKey, error: BaseException) -> None:
    def fail(work: Path) -> BuildProduct:
        (work / "half").write_text("half")
        raise error

    with pytest.raises(type(error)):
        cache.get_or_build(make_key(), fail)
    assert left_in(cache.layout.tmp) == []
    assert left_in(cache.layout.entries) == []


class FailsOnce:
    """A system call that fails on one of its uses."""

    def __init__(self, real: Callable[..., Any], at: int, number: int) -> None:
        self.real, self.at, self.number = real, at, number
        self.calls = 0
        self.failed = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls == self.at + 1:
            self.failed = True
            raise OSError(self.number, os.strerror(self.number), str(args[0]))
        return self.real(*args, **kwargs)


def problem_of(action: Callable[[], object]) -> EnvironmentProblem | None:
    try:
        action()
    except EnvironmentProblem as error:
        return error
    return None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("function", ["fsync", "rename", "mkdir", "open"])
def test_a_disk_that_refuses_is_exit_4_and_leaves_nothing_half_written(
    cache: Cache,
    make_key: MakeKey,
    write_product: Builder,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    number: int,
) -> None:
    """The first, second, ... use of a system call fails, until a build makes no more of them."""
    real = getattr(os, function)
    refused = 0
    for number_of_call in range(200):
        failing = FailsOnce(real, number_of_call, number)
        key = make_key(str(number_of_call))
        with monkeypatch.context() as patch:
            patch.setattr(os, function, failing)
            error = problem_of(lambda: cache.get_or_build(key, write_product))  # noqa: B023
        assert error is None or (error.help and os.strerror(number) in str(error))
        refused += error is not None
        found = cache.lookup(key)
        assert found is None or found.path.read_bytes() == b"library bytes"
        # If the cleanup itself failed, the build is already done and `prune` removes the rest.
        assert found is not None or left_in(cache.layout.tmp) == []
        assert left_in(cache.layout.quarantine) == []
        remove_tree(cache.layout.tmp)
        if not failing.failed:
            break
    assert not failing.failed
    assert refused > 0


def test_a_really_full_disk(cache: Cache, make_key: MakeKey, write_product: Builder) -> None:
    """A file size limit simulates a full disk: the write itself fails half way."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(EnvironmentProblem) as caught:
            cache.get_or_build(make_key(), lambda work: write_product(work, b"x" * 10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.strerror(errno.EFBIG) in str(caught.value)
    assert cache.lookup(make_key()) is None
    assert left_in(cache.layout.tmp) == []


def test_a_failure_that_cannot_be_kept_still_names_the_error(
    cache: Cache, make_key: MakeKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(work: Path) -> BuildProduct:
        raise BuildError("error: broken", why="exit status 1", log=None)

    monkeypatch.setattr("fmha_cli.toolchain.cache.store.write_atomic", full)
    with pytest.raises(KernelFailure, match=r"^error: broken .*could not be kept: No space left"):
        cache.get_or_build(make_key(), fail)


def test_a_hit_needs_no_write(
    cache: Cache, make_key: MakeKey, write_product: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache on a read-only file system still serves hits."""
    cache.get_or_build(make_key(), write_product)

    def read_only(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("mkdir", "rename", "replace", "utime", "unlink", "fchmod", "chmod", "fsync"):
        monkeypatch.setattr(os, name, read_only)
    assert Cache(cache.layout.root).get_or_build(make_key(), never).cached


def test_damage_on_a_read_only_disk_is_a_miss_and_said(
    cache: Cache, make_key: MakeKey, write_product: Builder, monkeypatch: pytest.MonkeyPatch, notices: Any
) -> None:
    flip(cache.get_or_build(make_key(), write_product).path)

    def read_only(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "rename", read_only)
    assert cache.lookup(make_key()) is None
    assert notices.kinds() == [NoticeKind.NOT_SAVED]


def test_everything_is_durable_before_the_rename_and_the_names_after(
    cache: Cache, make_key: MakeKey, write_product: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        events.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real_fsync(descriptor)

    def rename(source: Any, target: Any) -> None:
        events.append(f"rename {target}")
        real_rename(source, target)

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("there is no /proc to name descriptors by")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    place = cache.get_or_build(make_key(), write_product).path.parent
    published = events.index(f"rename {place}")
    before, after = events[:published], events[published + 1 :]
    durable = [Path(event) for event in before if not event.startswith("rename")]
    assert sorted(path.name for path in durable[:-1]) == sorted(ENTRY_FILES)
    assert durable[-2].name == META
    assert durable[-1] == durable[0].parent
    assert [Path(event) for event in after] == [place.parent, place.parent.parent]
