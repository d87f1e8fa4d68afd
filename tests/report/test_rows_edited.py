"""The table names edited sources: once if every row comes from them, else with the numbers of the rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.domain.plan import Edited
from fmha_cli.report.documents.inspect import inspect_document, inspect_view
from fmha_cli.report.documents.report import records_view, report_document
from fmha_cli.report.drawing import plain
from fmha_cli.report.record import Record
from tests.support.generators.report.samples import ARTIFACT, DIGEST, ENVIRONMENT, kernel, record

LINE = "source: baseline, edited (3 files differ), tree 0123456789ab"


def built_from(edited: Edited | None) -> Record:
    row = record()
    return replace(row, stages=tuple(replace(stage, edited=edited) for stage in row.stages))


def table(*rows: Record) -> list[str]:
    return plain(records_view(report_document(rows, ENVIRONMENT))).splitlines()


EDITED = Edited(base="baseline", tree=DIGEST, files=3)


@pytest.mark.promise("An edited tree is built by the rules of its revision, marked, and compared with the old one.")
def test_a_run_from_an_edited_tree() -> None:
    assert [line for line in table(*[built_from(EDITED)] * 3) if "source:" in line] == [f"  {LINE}"]


def test_rows_of_several_trees() -> None:
    other = replace(EDITED, tree=DIGEST[::-1], files=1)
    rows = [built_from(edited) for edited in (None, EDITED, other, EDITED)]
    assert [line for line in table(*rows) if "source:" in line] == [
        f"  2, 4: {LINE}",
        "  3: source: baseline, edited (1 file differs), tree fedcba987654",
    ]


def test_a_run_from_a_known_revision_needs_no_word() -> None:
    assert not [line for line in table(built_from(None)) if "source:" in line]


def test_a_record_keeps_it() -> None:
    row = built_from(EDITED)
    assert Record.from_dict(row.to_dict()).stages == row.stages


def test_inspect_names_it_too() -> None:
    for edited, source in ((None, None), (EDITED, "baseline, edited (3 files differ)")):
        document = inspect_document(kernel(), {}, replace(ARTIFACT, edited=edited))
        assert document.details.get("source") == source
        assert (source is not None) == ("edited" in plain(inspect_view(document)))
