"""Counts of emulated devices in words: sectors are shown where they were counted."""

from __future__ import annotations

from dataclasses import replace

from fmha_cli.report.counts import compared_counts
from fmha_cli.report.documents.executed import executed_document, executed_view
from tests.support.generators.report.samples import EXECUTED, PROBLEM, emulated

COUNTED = replace(EXECUTED, global_read_bytes=1024, global_written_bytes=1024, global_sectors=128)


def shown(*executed: object) -> dict[str, list[str]]:
    document = executed_document(PROBLEM, replace(emulated(), executed=executed))
    return {row[0].strip(): row[1:] for row in executed_view(document).rows}


def test_sectors_stand_beside_what_was_accessed() -> None:
    rows = shown(COUNTED, replace(COUNTED, kernel="other", global_sectors=64))
    assert rows["global memory, sectors of 32 bytes"] == ["128", "64", "192"]
    assert rows["their bytes / bytes accessed"] == ["2.00", "1.00", "1.50"]


def test_what_was_not_counted_is_not_shown() -> None:
    assert not [name for name in shown(EXECUTED) if "sectors" in name]
    assert not [name for name in shown(COUNTED, EXECUTED) if "sectors" in name]


def test_sectors_are_compared_where_both_have_them() -> None:
    told = compared_counts([COUNTED], [replace(COUNTED, global_sectors=100)], "K")
    assert told is not None
    assert "sectors +28" in told
    other = compared_counts([COUNTED], [EXECUTED], "K")
    assert other is not None
    assert "sectors" not in other
