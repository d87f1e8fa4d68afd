"""Trees of sources that the user names: their identity, and how they differ from a known state of the same project."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.plan import Edited
from fmha_cli.domain.wording import edited_text, listed
from fmha_cli.system.files import named_path
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import recall, remember, stamps

SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tpp", ".def")
"""Endings of the files that a kernel's text can include. Others (documents, programs, backups of editors) do not count."""

NEAR = 0.9
"""The share of a known state's files that a tree must have unchanged to be taken for it unless the user names another.
A Composable Kernel four months older than the baseline has 37 % of its files unchanged.
"""

_DIGITS = 16
"""Hexadecimal digits of each file's SHA-256 in the lists of known states."""

_RACY_NS = 2_000_000_000
"""A file that changed so shortly before it was read could change again without a new time, so nothing is remembered."""


@dataclass(frozen=True)
class Known:
    """A known state of a project.

    Attributes:
        name: the revision's.
        files: path -> first digits of the SHA-256 of the text (``_DIGITS``).
    """

    name: str
    files: Mapping[str, str]

    @staticmethod
    def load(file: str) -> Known:
        """The state that a file of ``arch_specs/`` lists.

        Raises:
            InternalError: the file is malformed.
        """
        data = arch_document(file, "fmha.source-files/1")
        return Known(data["name"], data["files"])


@dataclass(frozen=True)
class Home:
    """A tree as it is now, next to a known state.

    Attributes:
        digest: of the paths and texts of its files; line endings do not count.
        parts: as for :func:`home_files`.
        known: the state to compare with.
        changed, added, missing: paths, sorted.
    """

    digest: str
    parts: Mapping[str, Path]
    known: Known
    changed: tuple[str, ...]
    added: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def differing(self) -> int:
        """Number of files that differ from the known state."""
        return len(self.changed) + len(self.added) + len(self.missing)

    @property
    def near(self) -> bool:
        """Whether the tree is an edited copy of the known state beyond doubt (``NEAR``)."""
        unchanged = len(self.known.files) - len(self.changed) - len(self.missing)
        return unchanged >= NEAR * len(self.known.files)

    @property
    def edited(self) -> Edited | None:
        """The tree as records state it; None for the known state."""
        if not self.differing:
            return None
        return Edited(base=self.known.name, tree=self.digest, files=self.differing)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The files that differ, each with how."""
        words = ((self.changed, ""), (self.added, " (new)"), (self.missing, " (missing)"))
        return tuple(f"{path}{word}" for paths, word in words for path in paths)

    @property
    def notes(self) -> tuple[str, ...]:
        """How it differs from the known state, in words; empty for the known state."""
        return () if self.edited is None else (f"{edited_text(self.edited)}: {listed(self.lines)}",)

    def require_same(self, layout: CacheLayout, where: str) -> None:
        """Refuse a kernel whose sources changed during its compile.

        Raises:
            EnvironmentProblem: S107; or a file cannot be read.
        """
        with as_environment_problem(f"reading the sources in {where}"):
            now = look_at(layout, self.parts, self.known)
        if now.digest != self.digest:
            raise EnvironmentProblem(
                "the sources changed while a kernel was compiled from them",
                code="S107",
                where=where,
                why="the result could hold parts of both states, so it was not kept",
                help="run the command again when the files are saved; --watch does so by itself",
            )


def home_path(given: str) -> Path:
    """The folder that an option or a variable names as the user's own tree."""
    return named_path(given)


def home_files(parts: Mapping[str, Path]) -> dict[str, Path]:
    """The files of a tree that kernels can include, by their names.

    Args:
        parts: name -> folder. The names of the files in it begin with that name, unless it is empty. Links to folders are
            followed, because a compiler follows them.

    Raises:
        OSError: a folder cannot be read.
    """
    return {
        f"{part}/{path.relative_to(root).as_posix()}" if part else path.relative_to(root).as_posix(): path
        for part, root in parts.items()
        for path in _below(root)
    }


def look_at(layout: CacheLayout, parts: Mapping[str, Path], known: Known) -> Home:
    """The tree as it is now. Its files are read again only if one of them has another time or size than at the last look.

    Args:
        parts: as for :func:`home_files`.

    Raises:
        OSError: a file cannot be read.
    """
    files = home_files(parts)
    paths = [str(path) for path in files.values()]
    question = {"files": digest_of([list(files), paths]), "known": digest_of(dict(known.files))}
    memo = layout.toolchains / f"home-{digest_of([str(root) for root in parts.values()])[:16]}.json"
    remembered = recall(memo, question)
    if isinstance(remembered, dict):
        answer: dict[str, Any] = remembered
    else:
        watched, now = stamps(paths), time.time_ns()
        answer = _compare_files(files, known)
        if all(stamp is not None and stamp[0] < now - _RACY_NS for stamp in watched.values()):
            with suppress(OSError):  # a read-only cache works without it
                remember(memo, question, answer, watched)
    return Home(
        answer["digest"], dict(parts), known, *(tuple(answer[name]) for name in ("changed", "added", "missing"))
    )


def unfit(what: str, home: Home, *, options: tuple[str | None, str | None], more: str = "") -> EnvironmentProblem:
    """S106: the refusal of a tree that is not a known revision or close to one.

    Args:
        options: the option that named the tree, and the one that would take it as a revision.
        more: the text after the count of differing files.
    """
    given, taken_as = options
    return EnvironmentProblem(
        what,
        code="S106",
        where=f"--{given}",
        why=f"{home.differing} files differ from the {len(home.known.files)} of {home.known.name}{more}",
        help=f"--{taken_as} {home.known.name} builds it by the rules of that revision all the same; without --{given} the "
        "pinned source is used",
    )


def _compare_files(files: Mapping[str, Path], known: Known) -> dict[str, Any]:
    found = {name: _text_sha256(path) for name, path in files.items()}
    return {
        "digest": digest_of(sorted([name, sha256] for name, sha256 in found.items())),
        "changed": sorted(n for n in found.keys() & known.files.keys() if found[n][:_DIGITS] != known.files[n]),
        "added": sorted(found.keys() - known.files.keys()),
        "missing": sorted(known.files.keys() - found.keys()),
    }


def _text_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def _below(root: Path) -> list[Path]:
    """The files below a folder, hidden ones left out, sorted. A folder that links lead to twice is read once."""

    def refuse(error: OSError) -> None:
        raise error

    found, seen = [], {os.path.realpath(root)}
    for folder, folders, names in os.walk(root, onerror=refuse, followlinks=True):
        kept = []
        for name in sorted(folders):
            real = os.path.realpath(os.path.join(folder, name))
            if not name.startswith(".") and real not in seen:
                seen.add(real)
                kept.append(name)
        folders[:] = kept
        paths = (Path(folder, name) for name in names if name.endswith(SUFFIXES) and not name.startswith("."))
        found += [path for path in paths if path.is_file()]
    return sorted(found)
