"""A small model of a terminal: where characters land, which lines were too long for it, and what is left at the end."""

from __future__ import annotations

import codecs
import re
import unicodedata
from itertools import pairwise, takewhile

_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Za-z0-9]|\x1b[=>78]")
_PARTIAL = re.compile(r"\x1b[^A-Za-z\x07]{0,40}$")
_RULE = re.compile(r"-{2,}(?: +-{2,})*")


class Screen:
    """Text as a terminal of ``columns`` shows it. ``wrapped`` holds the first part of each line that did not fit, also of
    lines that were later overwritten."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.wrapped: list[str] = []
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def lines(self) -> list[str]:
        """What is left, without blanks at the ends."""
        return ["".join(line).rstrip() for line in self._lines]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    def feed(self, data: bytes) -> None:
        """Bytes as the terminal gets them."""
        text = self._rest + self._decoder.decode(data)
        partial = _PARTIAL.search(text)
        self._rest, text = (partial[0], text[: partial.start()]) if partial else ("", text)
        at = 0
        for control in _CONTROL.finditer(text):
            self._print(text[at : control.start()])
            self._control(control[1] or "", control[2] or "")
            at = control.end()
        self._print(text[at:])

    def _print(self, text: str) -> None:
        for char in text:
            if char == "\n":
                self._down()
            elif char == "\r":
                self._column = 0
            elif char == "\b":
                self._column = max(0, self._column - 1)
            elif char == "\t":
                self._column = min(self.columns - 1, self._column // 8 * 8 + 8)
            elif char.isprintable() and not unicodedata.combining(char):
                self._put(char, 2 if unicodedata.east_asian_width(char) in "WF" else 1)

    def _put(self, char: str, width: int) -> None:
        if self._column + width > self.columns:
            self.wrapped.append("".join(self._lines[self._row]))
            self._column = 0
            self._down()
        line = self._lines[self._row]
        line.extend(" " * (self._column + width - len(line)))
        line[self._column : self._column + width] = [char, ""][:width]
        self._column += width

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append([])

    def _control(self, numbers: str, kind: str) -> None:
        count = int(numbers) if numbers.isdigit() else 0
        line = self._lines[self._row]
        if kind == "A":
            self._row = max(0, self._row - (count or 1))
        elif kind == "B":
            for _ in range(count or 1):
                self._down()
        elif kind == "C":
            self._column = min(self.columns - 1, self._column + (count or 1))
        elif kind == "D":
            self._column = max(0, self._column - (count or 1))
        elif kind == "G":
            self._column = min(self.columns, count or 1) - 1
        elif kind == "K" and count == 2:
            line.clear()
        elif kind in "KJ" and count == 0:
            del line[self._column :]


def blank_columns(lines: list[str]) -> list[str]:
    """Columns of tables without any word: below a row of dashes, or in the header above it. A table of one column has none."""
    found = []
    for at, rule in enumerate(lines):
        if not at or not lines[at - 1].strip() or not _RULE.fullmatch(rule) or " " not in rule:
            continue
        spans = [(dash.start(), dash.end()) for dash in re.finditer("-+", rule)]
        gaps = [(end, start) for (_, end), (start, _) in pairwise(spans)]
        body = list(
            takewhile(lambda line, gaps=gaps: line and not any(line[a:b].strip() for a, b in gaps), lines[at + 1 :])
        )
        for start, end in spans:
            name = lines[at - 1][start:end].strip()
            if not name:
                found.append(f"column {start} has no name: {lines[at - 1]}")
            elif body and not any(line[start:end].strip() for line in body):
                found.append(f"column {name!r} is blank")
    return found
