"""Small facts that are costly to find out, kept as long as the files that they depend on stay the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.toolchain.cache.files import UnsafeFileError, read_own, write_atomic

MEMO_SCHEMA = "fmha.memo/1"

Stamps = Mapping[str, tuple[int, int] | None]


def stamps(paths: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """Modification time (ns) and size of each file, symlinks followed; None for one that is missing."""
    return {path: _stamp(path) for path in paths}


def recall(path: Path, question: object) -> object | None:
    """The remembered answer; None without one, if it answers another question, or if a watched file has changed.

    Args:
        path: the memo's file.
        question: plain data, equal to the question of :func:`remember`.
    """
    try:
        raw = read_own(path)
        document = json.loads(raw)
        answer, watched = document["answer"], document["watched"]
        sound = raw == _encode(question, answer, watched)
        return answer if sound and all(_same(name, stamp) for name, stamp in watched.items()) else None
    except (OSError, UnsafeFileError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def remember(path: Path, question: object, answer: object, watched: Stamps) -> None:
    """Keep an answer until one of the watched files changes.

    Args:
        watched: stamps taken *before* the answer was found, to notice a file that changed meanwhile.

    Raises:
        OSError: it cannot be written.
    """
    plain = {name: None if stamp is None else list(stamp) for name, stamp in watched.items()}
    write_atomic(path, _encode(question, answer, plain))


def _encode(question: object, answer: object, watched: object) -> bytes:
    body = {"answer": answer, "question": question, "schema": MEMO_SCHEMA, "watched": watched}
    return canonical_json({**body, "self": digest_of(body)}).encode("ascii") + b"\n"


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _same(path: str, stamp: object) -> bool:
    now = _stamp(path)
    return stamp == (None if now is None else list(now))
