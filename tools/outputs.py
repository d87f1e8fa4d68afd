"""Writes and checks the outputs that README and the pages of ``docs/`` show.

``python -m tools.outputs write [PAGE...]`` runs the commands and puts what they print into the pages;
``check`` runs them and compares; ``tail README.md N LOG`` compares the end of a log with the output of the Nth command.
Commands run at 80 columns, in their own folder and home.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.pages import ROOT, How, Shown, Suite, pages, shown_in, table

WALKS = ("docs/tutorial.md",)
"""Pages that a reader follows from top to bottom: all their commands run, in order, in one folder."""

_KEPT = ("FMHA_CACHE_DIR",)
"""Variables of ``fmha`` that reach the commands: what is compiled already need not be compiled again."""

_PROGRESS = re.compile(
    r"^((\w+[,:] )?\w[^,\n]*, ([^,\n]+, )?(\d+ min( \d+ s)?|\d+ s)\b.*|measuring the (settings|peaks) of .*)\n(    .*\n)*",
    re.MULTILINE,
)
"""Lines on stderr that only a slow or a new machine prints."""
_NOISE = re.compile(
    r"^  (\d+|NOISY): .*(samples (is an|are) outlier|times drifted by|machine's ceiling|fewer than 6 samples|threads? still).*\n(    .*\n)*",
    re.MULTILINE,
)
"""Notes that a quiet machine does not print."""
_CONTINUED = re.compile(r"\n {2,}(?=\S)")
_ASIDE = re.compile(r"^\d+ (columns? left out|suspicious rows?): .*\n?( +\S.*\n?)*", re.MULTILINE)
"""Lines below a table that depend on the width of its numbers, or on noise."""
_COMPARED = re.compile(
    r"^ *\d[\d.,]* [num]?s +\d.*(\n {20,}.*)*|(?<=^)\d+ rows?: .*\b(unsure|same|slower|faster)\b.*$", re.MULTILINE
)
"""Rows of ``fmha compare`` and their sum: noise decides the verdict."""
_WORST = re.compile(r"\b\w+ \(b=\d+, h=\d+, i=\d+\) d=\d+, \w+ limit")
_ROW = re.compile(r"^( *\d+ .*?\b[A-Z_]{4,}\b)(.*)$", re.MULTILINE)
_NUMBER = re.compile(r"(NOISY )?\b\d[\d,.]*(e[+-]\d+)?\b")
_DIFFERS = (
    (re.compile(r"\b(?=\w*\d)[0-9a-f]{8,64}\b"), "DIGEST"),
    (re.compile(r"\b(x86_64_\w+|aarch64\w*|generic)\b"), "ARCH"),
    (re.compile(r"\b(Intel|AMD)\b.*(Processor|CPU)\b[^,\n]*"), "PROCESSOR"),
    (re.compile(r"\[(ns|us|ms|s)\]"), "[TIME]"),
    (re.compile(r"\b[KMGT]?(FLOP|B)/s\b"), "UNIT/s"),
    (re.compile(r"\b\d[\d,.]*(e[+-]\d+)? ?([num]?s|min|UNIT/s|MiB|KiB|B|%)(?!\w)"), "N UNIT"),
    (re.compile(r"\b\d+\.\d+(e[+-]\d+)?x?\b"), "N"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?\b"), "DATE"),
    (re.compile(r"\b\d[\d,]* (passed|skipped|deselected|xfailed|warnings?)\b"), r"N \1"),
    (re.compile(r"\(\d+:\d\d:\d\d\)"), ""),
    (re.compile(r"-{2,}|={2,}|(?<=[ \n])-(?= )"), "--"),
    (re.compile(r"[ \t]+"), " "),
)
"""What differs between runs and machines: digests, processors, times, speeds, errors, dates, counts of tests, widths of columns."""


def normalise(text: str) -> str:
    """An output without what differs between runs and machines."""
    for pattern in (_PROGRESS, _NOISE, _ASIDE):
        text = pattern.sub("", text)
    text = _WORST.sub("WORST", _CONTINUED.sub(" ", _COMPARED.sub("COMPARED", text)))
    text = _ROW.sub(lambda row: row[1] + _NUMBER.sub("N", row[2]), text)
    for pattern, word in _DIFFERS:
        text = pattern.sub(word, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


@dataclass(frozen=True)
class Room:
    """A folder with ``work``, where commands run, ``home``, and ``bin``, which has ``fmha`` and ``python``."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> Room:
        for name in ("bin", "home", "work"):
            (folder / name).mkdir()
        for name, words in (("fmha", "-m fmha_cli"), ("python", "")):
            shim = folder / "bin" / name
            shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n', "utf-8")
            shim.chmod(0o755)
        return cls(folder)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def variables(self) -> dict[str, str]:
        """A newcomer's: no settings, an empty store, no GPU, 80 columns."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FMHA_", "XDG_")) or k in _KEPT}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept['PATH']}"
        hidden = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
        own = {"PATH": path, "HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
        return {**kept, **own, **hidden}

    def run(self, line: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a line by the shell: stdout and stderr in one text."""
        return subprocess.run(
            ["bash", "-ec", line],
            cwd=self.work,
            env=env or self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )


def printed(page: Path, ways: Mapping[str, How], root: Path = ROOT) -> Iterator[tuple[Shown, str]]:
    """Each command of a page that shows an output, or belongs to a walk, with what it prints today.

    Raises:
        RuntimeError: a command ends with a code that is not right.
    """
    walk = str(page.relative_to(root)) in WALKS
    chosen = [one for one in shown_in(page, root) if walk or one.output is not None]
    with tempfile.TemporaryDirectory(prefix="outputs") as folder:
        room = Room.made(Path(folder))
        for one in chosen:
            how = How(one.text) if one.script else ways[one.text]
            if how.suite is not Suite.DEFAULT and how.prints is None:
                continue
            done = room.run(how.line)
            if done.returncode not in how.codes:
                raise RuntimeError(f"{one.page}: {one.text}: exit code {done.returncode}\n{done.stdout}")
            yield one, done.stdout


def compare(shown: Shown, now: str) -> str | None:
    """How what a command prints differs from what the page shows; None if only the machine does."""
    before, after = (normalise(text).splitlines() for text in (shown.output or "", now))
    if before == after:
        return None
    lines = difflib.unified_diff(before, after, f"{shown.page}: {shown.text}", "now", lineterm="", n=1)
    return "\n".join(lines)


def check(page: Path, ways: Mapping[str, How], root: Path = ROOT) -> list[str]:
    """Every difference between the outputs that a page shows and the ones that its commands print."""
    found = (compare(one, now) for one, now in printed(page, ways, root) if one.output is not None)
    return [text for text in found if text is not None]


def write(page: Path, ways: Mapping[str, How], root: Path = ROOT) -> None:
    """Put what the commands print today into a page."""
    text = page.read_text("utf-8")
    changes = [(one.span, _PROGRESS.sub("", now)) for one, now in printed(page, ways, root) if one.span is not None]
    for (start, end), now in reversed(changes):
        text = text[:start] + "".join(f"{line.rstrip()}\n" for line in now.splitlines()) + text[end:]
    page.write_text(text, "utf-8")


def tail(page: Path, place: int, log: str) -> str | None:
    """How the end of a log differs from the output of the command at this place of a page; None if it does not."""
    shown = [one for one in shown_in(page) if one.output is not None][place - 1]
    most = len(normalise(shown.output or "").splitlines())
    return compare(shown, "\n".join(normalise(log).splitlines()[-most:]))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("write", "check", "tail"))
    parser.add_argument("words", nargs="*", metavar="PAGE")
    asked = parser.parse_args(words)
    if asked.mode == "tail":
        page, place, log = asked.words
        found = [tail(Path(page).resolve(), int(place), Path(log).read_text("utf-8", "replace"))]
    else:
        ways = table()
        chosen = [Path(word).resolve() for word in asked.words] or pages()
        kept = [page for page in chosen if any(one.output is not None for one in shown_in(page))]
        found = []
        for page in kept:
            if asked.mode == "write":
                write(page, ways)
            else:
                found += check(page, ways)
    differences = [text for text in found if text is not None]
    print("\n".join(differences), end="\n" if differences else "")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
