"""The parts of a page that are plain text: the runs, their environments, and rows without a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fmha_cli.domain.quantities import size
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.rows import timed
from fmha_cli.report.finite import is_note
from fmha_cli.report.lines import helped, ranges, reason_text
from fmha_cli.report.record import Record
from fmha_cli.results.run import KeptRun

Fact = tuple[str, str]
"""What, and its value."""


def facts(content: PageContent) -> list[tuple[str, list[Fact]]]:
    """The name of each run, and the facts of it and of its machine."""
    return [(run.name, list(_facts(run))) for run in content.runs]


def _facts(run: KeptRun) -> Iterator[Fact]:
    about = next((record.run for record in run.records if record.run is not None), None)
    if about is not None:
        yield "run", about.id
        yield "command", about.command
        yield "started", about.started
        if about.label:
            yield "label", about.label
        if about.revision:
            yield "rev", about.revision + (" with changes" if about.dirty else "")
    for name, value in _machine(run.records):
        yield name, value
    told = run.environment
    if told is None:
        yield "environment", "not stated by the source"
        return
    versions = {"fmha": told.fmha, "python": told.python, "platform": told.platform}
    yield from ((name, text) for name, text in versions.items() if text)
    for device in told.devices:
        memory = "" if device.memory_bytes is None else f", {size(device.memory_bytes)}"
        yield f"device {device.id}", f"{device.name}, {device.units} units{memory} ({', '.join(device.archs)})"
    for name, found in sorted(told.backends.items()):
        words = helped(found.why, found.help) if found.why else found.version or ""
        yield f"backend {name}", f"{found.state}{': ' + words if words else ''}"


def _machine(records: Sequence[Record]) -> Iterator[Fact]:
    processors = dict.fromkeys(record.processor.name for record in records if record.processor is not None)
    if processors:
        yield "processor", ", ".join(filter(None, processors))
    hosts = dict.fromkeys(record.host[:12] for record in records if record.host)
    if hosts:
        yield "host", ", ".join(hosts)


def untimed(content: PageContent) -> list[str]:
    """Why rows have no time that counts, one line for all rows of one reason."""
    known = {row.row for row in timed(content.records, content.run_of)}
    groups: dict[str, list[int]] = {}
    for number, record in enumerate(content.records, 1):
        if number not in known:
            groups.setdefault(_why(record), []).append(number)
    return [f"{'row' if len(rows) == 1 else 'rows'} {ranges(rows)}: {why}" for why, rows in groups.items()]


def _why(record: Record) -> str:
    reasons = list(map(reason_text, record.reasons))
    notes = [note for note in record.notes if not is_note(note)]
    log = (record.log or "").strip().splitlines()[-1:]
    words = reasons or notes or log
    if not words:
        words = (
            ["timed by a single launch, which says little"]
            if record.measurement is not None
            else ["no reason is stated"]
        )
    return f"{record.verdict.value}: {'; '.join(words)}"
