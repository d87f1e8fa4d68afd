"""Documents of ``fmha compare``, for the tests of reports and schemas."""

from __future__ import annotations

from fmha_cli.bench.difference import SureRule
from fmha_cli.report.documents.compare import Compare
from fmha_cli.report.parts import RunRow
from fmha_cli.results.comparison import compared, confirmed
from fmha_cli.results.conditions import USUAL
from fmha_cli.results.documents import compare_document
from fmha_cli.results.run import KeptRun
from tests.support.generators.runs_to_compare import failed, processes, timed

_RUN = RunRow(id="0" * 32, command="bench", started="2026-11-24T19:00:00Z", label="mine", revision="a" * 40, dirty=True)
_CALM, _SLOW = processes(1_000_000, 1), processes(1_100_000, 2)


def compare_documents() -> list[Compare]:
    """Stored runs with rows of every kind, and commands whose suspicious row was run again."""
    before = [timed(_CALM, run=_RUN), timed(_CALM[:1], seqlen=128), timed(_CALM, seqlen=256), timed(_CALM, seqlen=1024)]
    after = [timed(_SLOW), timed(_SLOW[:1], seqlen=128), failed(seqlen=256), timed(_CALM, seqlen=2048)]
    sources = KeptRun("old.json", tuple(before)), KeptRun("new.json", tuple(after))
    stored = compare_document(compared(before, after, SureRule(interleaved=False)), *sources, USUAL)
    screened = compared(before[:1], after[:1], SureRule(interleaved=True))
    turns = compare_document(confirmed(screened, before[:1], after[:1]), *sources, USUAL)
    return [stored, turns]
