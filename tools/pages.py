"""The commands and the outputs that README and the pages of ``docs/`` show, and how each command is run.

A ``text`` block directly behind a ``bash`` or ``python`` block is the output of the block's last command, or of the script. A ``console`` block holds
commands after ``$``, each with its output.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("commands.toml")

_FENCE = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#\s.*$")
_INDENTED = re.compile(r"^(?: {4,}|\t)(?:\S+=\S+ )*(?:fmha|python3?|pip|apt) ", re.MULTILINE)

SHELL = frozenset("|&;<>()$`\\\"'*?[]#~{}\n")
"""Characters that mean something to a shell."""

OTHERS = ("python", "toml", "yaml", "json", "text")
"""Languages of blocks that hold no commands."""


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it.

    Attributes:
        page: the page's path below the checkout.
        text: the command.
        output: the output that follows it there, if any.
        span: where the output stands in the page's text.
        script: it is a block of Python, which needs no row in the table.
    """

    page: str
    text: str
    output: str | None = None
    span: tuple[int, int] | None = None
    script: bool = False


def pages() -> list[Path]:
    """README, the change log and every page of ``docs/`` and ``results/``."""
    folders = (ROOT / "docs", ROOT / "results")
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *(page for one in folders for page in sorted(one.rglob("*.md")))]


def blocks_of(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    return [
        (language, re.sub(f"^{indent}", "", body, flags=re.MULTILINE))
        for indent, language, body in _FENCE.findall(text)
    ]


def _output_of(text: str, fence: re.Match[str], following: re.Match[str] | None) -> re.Match[str] | None:
    """The block of the output, if it stands directly behind this one."""
    near = following and following[2] == "text" and not text[fence.end() : following.start()].strip()
    return following if near else None


def shown_in(page: Path, root: Path = ROOT) -> Iterator[Shown]:
    """Every command of a page.

    Raises:
        ValueError: a block without a known language, or a command that stands in no block.
    """
    text, name = page.read_text("utf-8"), str(page.relative_to(root))
    if stray := _INDENTED.search(_FENCE.sub("", text)):
        raise ValueError(f"{name}: a command outside of a fenced block: {stray[0]}")
    for fence, following in pairwise((*_FENCE.finditer(text), None)):
        assert fence is not None
        language, body = fence[2], fence[3]
        if language == "bash":
            lines = re.sub(f"^{fence[1]}", "", body, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
            commands = [_COMMENT.sub("", line) for line in lines if line and not line.startswith("#")]
            yield from (Shown(name, command) for command in commands[:-1])
            output = _output_of(text, fence, following)
            yield Shown(name, commands[-1], *((output[3], output.span(3)) if output else ()))
        elif language == "console":
            for part in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
                start, end = (fence.start(3) + place for place in part.span(2))
                yield Shown(name, _COMMENT.sub("", part[1]), part[2], (start, end))
        elif language == "python" and (output := _output_of(text, fence, following)):
            yield Shown(name, f"python - <<'END'\n{body}END", output[3], output.span(3), script=True)
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
        add: words at its end, so it does not do hours of work.
        before: a command that makes what it reads.
        prints: the part of it that prints the output that the page shows, where the rest runs elsewhere.
    """

    text: str
    suite: Suite = Suite.DEFAULT
    why: str | None = None
    codes: tuple[int, ...] = (0,)
    words: Mapping[str, str] = field(default_factory=dict)
    add: str = ""
    before: str = "true"
    prints: str | None = None

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
        return " ".join(self.words.get(word, word) for word in f"{self.prints or self.text} {self.add}".split(" "))


def table() -> dict[str, How]:
    """How every command is run, by the command."""
    document = tomllib.loads(TABLE.read_text("utf-8"))
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
