"""Find a compiler that works: prove candidates one by one, and remember what was proven until its files change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir, remove_tree
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.lock import WaitingLock
from fmha_cli.toolchain.cache.memo import Stamps, recall, remember
from fmha_cli.toolchain.cpp.toolchain import CompilerCandidate
from fmha_cli.toolchain.notice import Notice, NoticeKind, Notify

C = TypeVar("C", bound=CompilerCandidate)
K = TypeVar("K")
T = TypeVar("T")


class ProbeError(Exception):
    """A compiler that does not work. The message gives the reason in one line.

    Attributes:
        help: the thing to install or to change; None if unknown.
    """

    def __init__(self, text: str, help: str | None = None) -> None:
        super().__init__(text)
        self.help = help


@dataclass(frozen=True)
class Probed(Generic[T]):
    """A proven compiler, and the files that it depends on with their stamps from before the proof."""

    toolchain: T
    watched: Stamps


@dataclass(frozen=True)
class ToolProof(Generic[K, T]):
    """The result for one candidate: a toolchain, or the reason why there is none and the remedy."""

    candidate: K
    toolchain: T | None
    fault: str | None
    help: str | None = None


@dataclass(frozen=True, kw_only=True)
class Search(Generic[C, T]):
    """The search for one sort of compiler.

    Attributes:
        what: the thing to find, as the object of a sentence: ``C++ compiler``.
        variable: the variable in which a user names one.
        kind: the class of a proven compiler.
        candidates: in order of preference.
        question: plain data; a proof holds for an equal question only.
        prove: proves a candidate in an empty folder; raises ``ProbeError``.
        still_good: whether a remembered proof of a candidate still holds, if the watched files alone cannot show it.
        layout: the cache that remembers.
        notify: called about compilers that are passed over.
    """

    what: str
    variable: str
    kind: type[T]
    candidates: Iterable[C]
    question: Callable[[C], Mapping[str, object]]
    prove: Callable[[C, Path], Probed[T]]
    still_good: Callable[[C, T], bool] = lambda candidate, known: True
    layout: CacheLayout
    notify: Notify

    def first(self, *, codes: tuple[str, str], absent: str, install: str) -> T:
        """The first candidate that works. If the user named one and it fails, the search ends.

        Args:
            codes: of the errors: the named one does not work, and none works.
            absent: the reason if there is no candidate.
            install: the thing to install.

        Raises:
            EnvironmentProblem: none works (the message lists each with its reason), or the cache cannot be written.
        """
        faults: list[str] = []
        helps: list[str] = []
        for candidate in self.candidates:
            finding = self.examine(candidate)
            if finding.toolchain is not None:
                return finding.toolchain
            fault = f"{candidate.command} (from {candidate.origin}): {finding.fault}"
            if candidate.wished:
                raise EnvironmentProblem(
                    f"the compiler of {self.variable} does not work: {fault}",
                    code=codes[0],
                    where=self.variable,
                    help=finding.help or f"name a {self.what} that works, or unset {self.variable} to let fmha choose",
                )
            self.notify(Notice(NoticeKind.TOOLCHAIN, f"passing over the {self.what} {fault}"))
            faults.append(fault)
            helps += [finding.help] if finding.help else []
        why = "; ".join(faults) or absent
        raise EnvironmentProblem(f"no {self.what} works here", code=codes[1], why=why, help=(*helps, install)[0])

    def examine(self, candidate: C) -> ToolProof[C, T]:
        """Recall or prove one candidate. At most one process proves a compiler at a time.

        Raises:
            EnvironmentProblem: the cache cannot be written.
        """
        if not candidate.found:
            return ToolProof(candidate, None, "there is no such program")
        question = {
            "argv0": list(candidate.argv0),
            "path": os.environ.get("PATH", "") if len(candidate.argv0) > 1 else "",
            "what": self.what,
            **self.question(candidate),
        }
        name = f"compiler-{digest_of(question)[:16]}"
        memo = self.layout.toolchains / f"{name}.json"
        with as_environment_problem(f"probing the {self.what}"):
            if (known := self._recall(memo, question, candidate)) is not None:
                return ToolProof(candidate, known, None)
            lock = WaitingLock(self.layout.lock(name), f"the probe of {candidate.command}", self.notify)
            with lock.hold(lambda: not memo.exists()):
                if (known := self._recall(memo, question, candidate)) is not None:
                    return ToolProof(candidate, known, None)
                return self._prove_anew(memo, question, candidate)

    def _recall(self, memo: Path, question: object, candidate: C) -> T | None:
        """The remembered toolchain, or None when it must be proven (again)."""
        try:
            known = from_json(self.kind, recall(memo, question))
        except ValueError:
            return None
        return known if self.still_good(candidate, known) else None

    def _prove_anew(self, memo: Path, question: object, candidate: C) -> ToolProof[C, T]:
        work = self.layout.new_tmp()
        make_private_dir(work)
        try:
            probed = self.prove(candidate, work)
        except ProbeError as fault:
            return ToolProof(candidate, None, str(fault), fault.help)
        finally:
            remove_tree(work)
        try:
            remember(memo, question, to_json(probed.toolchain), probed.watched)
        except OSError as error:
            text = f"the {self.what} will be probed again next time ({error.strerror})"
            self.notify(Notice(NoticeKind.NOT_SAVED, text))
        return ToolProof(candidate, probed.toolchain, None)
