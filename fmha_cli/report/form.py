"""``Format``: how to print data. It is separate from ``formats``, so a command's options need not load documents."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How to print data. Every format except the table is an option of the same name."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    MD = "md"
