"""The commands and the outputs that README and the pages of ``docs/`` show, and how each command is run."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from acceptance.processes import CHECKOUT

_FENCE = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#\s.*$")
_INDENTED = re.compile(r"^(?: {4,}|\t)(?:\S+=\S+ )*(?:fmha|python3?|pip|apt) ", re.MULTILINE)

SHELL = frozenset("|&;<>()$`\\\"'*?[]#~{}\n")
"""Characters that mean something to a shell."""

OTHERS = ("python", "toml", "json", "text")
"""Languages of blocks that hold no commands."""


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it, with the output that follows it there, if any."""

    page: str
    text: str
    output: str | None = None


def pages() -> list[Path]:
    """README, the change log and every page of ``docs/`` and ``results/``."""
    folders = (CHECKOUT / "docs", CHECKOUT / "results")
    return [
        CHECKOUT / "README.md",
        CHECKOUT / "CHANGELOG.md",
        *(p for one in folders for p in sorted(one.rglob("*.md"))),
    ]


def blocks_of(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    return [
        (language, re.sub(f"^{indent}", "", body, flags=re.MULTILINE))
        for indent, language, body in _FENCE.findall(text)
    ]


def shown_in(page: Path) -> Iterator[Shown]:
    """Every command of a page.

    Raises:
        ValueError: a block without a known language, or a command that stands in no block.
    """
    text, name = page.read_text("utf-8"), str(page.relative_to(CHECKOUT))
    if stray := _INDENTED.search(_FENCE.sub("", text)):
        raise ValueError(f"{name}: a command outside of a fenced block: {stray[0]}")
    for language, body in blocks_of(text):
        if language == "bash":
            lines = body.replace("\\\n", " ").splitlines()
            yield from (Shown(name, _COMMENT.sub("", line)) for line in lines if line and not line.startswith("#"))
        elif language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield Shown(name, _COMMENT.sub("", command), output)
        elif language not in OTHERS:
            raise ValueError(f"{name}: a block of language {language!r}; one of bash, console, {', '.join(OTHERS)}")


class Suite(StrEnum):
    """Where a command runs."""

    DEFAULT = "default"
    SLOW = "slow"
    """It takes minutes."""
    ELSEWHERE = "elsewhere"
    """It needs what a test has not; ``why`` says what."""


@dataclass(frozen=True)
class How:
    """How a shown command is run.

    Attributes:
        text: the command, exactly as shown.
        suite: where.
        why: the reason, if it is not the default suite, or if ``add`` keeps it from its whole work.
        codes: the exit codes that are right.
        words: what stands for a placeholder of the page; FIRST and SECOND are digests of kernels of the CPU.
        add: words at its end, so that it does not do hours of work.
        before: a command that makes what it reads.
    """

    text: str
    suite: Suite = Suite.DEFAULT
    why: str | None = None
    codes: tuple[int, ...] = (0,)
    words: Mapping[str, str] = field(default_factory=dict)
    add: str = ""
    before: str = "true"

    def __post_init__(self) -> None:
        if (self.suite is not Suite.DEFAULT or self.add) and not self.why:
            raise ValueError(f"why? {self.text}")

    @property
    def line(self) -> str:
        """The line that is run."""
        return f"{self.before} && {self._command}".strip()

    @property
    def argv(self) -> list[str] | None:
        """The words after ``fmha``, if the line is one ``fmha`` in which a shell changes nothing."""
        command, *words = shlex.split(self._command)
        plain = self.before == "true" and not SHELL.intersection(self._command)
        return words if plain and command == "fmha" else None

    @property
    def _command(self) -> str:
        return " ".join(self.words.get(word, word) for word in f"{self.text} {self.add}".split(" "))


def table() -> dict[str, How]:
    """How every command is run, by the command."""
    document = tomllib.loads(Path(__file__).with_name("doc_commands.toml").read_text("utf-8"))
    before = document["before"]
    made = [
        How(
            **{
                **row,
                "suite": Suite(row.get("suite", "default")),
                "codes": tuple(row.get("codes", (0,))),
                "before": before.get(words := row.get("before", "true"), words),
            }
        )
        for row in document["command"]
    ]
    found = {how.text: how for how in made}
    if len(found) != len(made):
        raise ValueError("a command twice")
    return found


def normalised(text: str) -> str:
    """An output without what differs between runs and machines: times, sizes of the cache, trailing blanks."""
    text = re.sub(r"\d[\d,.]* ?(ns|us|ms|s|min|GFLOP/s|TFLOP/s|GB/s|MiB|KiB|B)\b", r"N \1", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
