"""``fmha.journal/1``: the lines of a journal."""

from __future__ import annotations

from fmha_cli.domain.journal import Done, Key, Line, Planned, Start
from fmha_cli.report.document import Document

DOCUMENT = Document(
    Line,
    definitions={"key": Key, "start": Start, "planned": Planned, "done": Done},
    about="One line of a journal: start once, then planned before a row is dispatched and done after it.",
)
