"""The content-addressed build cache: look up, or build once and publish.

This protocol is safe with any number of processes, and if one is killed at any point:

1. A build happens in ``tmp/<uuid>/`` and touches nothing else.
2. Its files are sealed (fsync, read-only), then the directory is fsynced.
3. The *directory* is renamed to its place in the folder of the entries. A rename is atomic, so an entry is complete or
   absent. A process that finds the place taken drops its own build and uses the winner's.
4. Every load verifies every byte (``toolchain.cache.entry``). A damaged entry is moved to ``quarantine/`` and rebuilt.

The lock around steps 1 to 3 only saves the work of building twice.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.plan import Artifact
from fmha_cli.system.files import sync_folder
from fmha_cli.toolchain.cache.entry import EntryMeta
from fmha_cli.toolchain.cache.files import (
    as_environment_problem,
    hash_own,
    make_private_dir,
    remove_tree,
    seal,
    write_atomic,
    write_sealed,
)
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import ARTIFACT, LOG, META, PTX, SOURCE, CacheLayout
from fmha_cli.toolchain.cache.lock import PATIENCE_S, WaitingLock, try_lock
from fmha_cli.toolchain.cache.origin import forget_origin, origin_of
from fmha_cli.toolchain.cache.publish import intact_entry, publish_entry, quarantine_if_damaged
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify, log_notice


@dataclass(frozen=True)
class BuildProduct:
    """A finished build, not yet in the cache.

    Attributes:
        artifact: the built file, inside the directory that the builder was given; the cache moves it away.
        log: the build's log, in the same directory.
        seconds: how long the compiler took (wall clock).
        peak_bytes: the compiler's peak memory; None when unknown.
        ptx: the PTX that the artifact was assembled from, in the same directory; None if the compiler produces none.
    """

    artifact: Path
    log: Path
    seconds: float
    peak_bytes: int | None = None
    ptx: Path | None = None


class BuildError(Exception):
    """A build that failed for a reason in the kernel or the compiler, not in the environment.

    The cache keeps the log and turns this into a ``KernelFailure``.

    Attributes:
        summary: the first error line of the compiler, or another reason, in one line.
        why: how the compiler ended (its exit status, a signal, a timeout).
        log: the full log, or None when nothing was written.
    """

    def __init__(self, summary: str, *, why: str, log: Path | None) -> None:
        super().__init__(summary)
        self.summary = summary
        self.why = why
        self.log = log


Builder = Callable[[Path], BuildProduct]
"""Builds into an empty directory. Raises ``BuildError`` or any ``FmhaError``."""


class Cache:
    """One cache directory. Safe to share between threads; holds no state but its paths.

    Args:
        root: the directory (``toolchain.cache.root.cache_root`` chooses it); created with mode 0700.
        notify: called about waiting, quarantine and missing locks, from any thread.
        patience: seconds to wait for another process's build before this process builds too.

    Raises:
        EnvironmentProblem: the root is unsafe or cannot be created.
    """

    def __init__(self, root: Path, notify: Notify = log_notice, *, patience: float = PATIENCE_S) -> None:
        self.layout: CacheLayout = open_root(root)
        self._notify = notify
        self._patience = patience

    def lookup(self, key: BuildKey | str) -> Artifact | None:
        """The verified artifact of a key (or of its digest); None when it must be built.

        A damaged entry is quarantined, unless another process is working on it. This call never waits. The artifact may
        be loaded by its path: ``toolchain.cache.entry.verify_entry`` states who could change it in between, and
        ``PrunePolicy.grace_s`` why it will not be removed.

        Raises:
            EnvironmentProblem: the cache cannot be read.
        """
        digest = key if isinstance(key, str) else key.digest
        with as_environment_problem("reading the kernel cache"):
            meta = intact_entry(self.layout, digest)
            if meta is None and self.layout.entry(digest).exists():
                self._quarantine_unless_locked(digest)
        return None if meta is None else self._artifact(meta, cached=True)

    def get_or_build(self, key: BuildKey, builder: Builder, cancel: threading.Event | None = None) -> Artifact:
        """The artifact of a key, built now if the cache lacks it.

        Args:
            builder: called at most once, with an empty directory, and only if no other process built it first.
            cancel: when set, waiting for another process's build ends with ``Interrupted``. The builder must
                watch the event too.

        Raises:
            KernelFailure: the build failed; the full log and the source are kept under ``failed/<digest>/``.
            EnvironmentProblem: the disk is full, read-only or otherwise unusable; nothing is left half-written.
            Interrupted: ``cancel`` was set.
        """
        found = self.lookup(key)
        if found is not None:
            return found
        digest = key.digest
        what = f"the build of {key.spec.name}"
        lock = WaitingLock(self.layout.lock(digest), what, self._notify, digest, cancel, self._patience)
        with as_environment_problem(what), lock.hold(lambda: intact_entry(self.layout, digest) is None):
            meta = intact_entry(self.layout, digest)
            if meta is not None:
                return self._artifact(meta, cached=True)
            return self._build(key, builder)

    def _build(self, key: BuildKey, builder: Builder) -> Artifact:
        """Steps 1 to 3. Nothing is left in ``tmp`` unless the process is killed."""
        home = self.layout.new_tmp()
        work, entry = home / "work", home / "entry"
        try:
            make_private_dir(work)
            make_private_dir(entry)
            try:
                product = builder(work)
            except BuildError as error:
                raise self._keep_failure(key, error) from error
            meta = _seal_product(key, product, entry)
            winner = publish_entry(self.layout, entry, key.digest, self._notify)
            if winner is None:
                forget_origin(self.layout, key.digest)
        finally:
            remove_tree(home)
        remove_tree(self.layout.failure(key.digest))
        return self._artifact(winner or meta, cached=winner is not None)

    def _quarantine_unless_locked(self, digest: str) -> None:
        """Quarantine a damaged entry, unless a process holds its lock: that process sees the damage too."""
        try:
            with try_lock(self.layout.lock(digest)) as held:
                if held:
                    quarantine_if_damaged(self.layout, digest, self._notify)
        except OSError as error:
            text = f"a damaged cache entry stays where it is ({error.strerror})"
            self._notify(Notice(NoticeKind.NOT_SAVED, text, digest))

    def _keep_failure(self, key: BuildKey, error: BuildError) -> KernelFailure:
        """Keep log and source of a failed build. Returns the error that names them."""
        folder = self.layout.failure(key.digest)
        log = folder / LOG
        try:
            data = error.log.read_bytes() if error.log else f"{error.summary}\n{error.why}\n".encode()
            write_atomic(folder / SOURCE, key.spec.source_bytes)
            write_atomic(log, data)
            where = str(log)
        except OSError as problem:
            where = f"(the log could not be kept: {problem.strerror})"
        return KernelFailure(
            f"{error.summary} [log: {where}]",
            code="B010",
            where=where,
            why=f"{error.why} while building {key.spec.name} with {key.toolchain_path}",
            help="the log begins with the command line; run it in the log's directory",
        )

    def _artifact(self, meta: EntryMeta, *, cached: bool) -> Artifact:
        folder = self.layout.entry(meta.digest)
        with suppress(OSError):
            # The time of last use, which `prune` goes by. A read-only cache keeps none.
            os.utime(folder)
        return Artifact(
            path=folder / ARTIFACT,
            sha256=meta.files[ARTIFACT].sha256,
            digest=meta.digest,
            log=folder / LOG,
            cached=cached,
            build_seconds=meta.build_ns / 1e9,
            imported_from=origin.archive if (origin := origin_of(self.layout, meta.digest)) else None,
        )


def _seal_product(key: BuildKey, product: BuildProduct, entry: Path) -> EntryMeta:
    """Fill the entry's directory with sealed files and make the directory durable."""
    files = {ARTIFACT: product.artifact, LOG: product.log} | ({PTX: product.ptx} if product.ptx else {})
    for name, path in files.items():
        path.rename(entry / name)
        seal(entry / name)
    write_sealed(entry / SOURCE, key.spec.source_bytes)
    meta = EntryMeta(
        digest=key.digest,
        parts=key.parts,
        files={name: hash_own(entry / name) for name in (*files, SOURCE)},
        created_ns=time.time_ns(),
        build_ns=round(product.seconds * 1e9),
        peak_bytes=product.peak_bytes,
    )
    write_sealed(entry / META, meta.encode())
    sync_folder(entry)
    return meta
