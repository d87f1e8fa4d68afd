"""Documents that are one row: an error, a rule, the names of the schemas, a record, the environment, a line of a journal.

The dataclasses of records and of journals are the nouns themselves, in ``report.record`` and ``domain.journal``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.conditions import Ceiling, ProcessorConditions
from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.roofline import Floor
from fmha_cli.domain.journal import Finished, JournalBuilt, JournalDone, JournalPlanned, JournalRow, Key, Line, Start
from fmha_cli.domain.members import Pattern
from fmha_cli.domain.processor import Processor
from fmha_cli.domain.protocols import Extent, LaunchView
from fmha_cli.domain.settings import Settings
from fmha_cli.domain.verdict import Check
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import counted
from fmha_cli.report.parts import Checks, Environment, ErrorRow, StageRow
from fmha_cli.report.record import Record
from fmha_cli.report.table import Table, table_of


@dataclass(frozen=True, kw_only=True)
class FailurePage:
    """What a command prints with --json when it could not make its own document."""

    schema: Literal["fmha.error/1"] = "fmha.error/1"
    error: ErrorRow


_PARTS = (Column("part"), Column("text", fit=Fit.FOLD))


def error_view(document: FailurePage) -> Table:
    """The error, with a line for each of its parts."""
    error = document.error
    rows = [[key, text] for key in ("where", "why", "help") if (text := getattr(error, key))]
    return Table(_PARTS, rows, f"error[{error.code}]: {error.what}")


@dataclass(frozen=True, kw_only=True)
class RulePage:
    """explain ID --json: the page of a rule or error."""

    schema: Literal["fmha.rule/1"] = "fmha.rule/1"
    id: Annotated[str, Pattern("^[A-Z][0-9]{3}$")]
    text: Annotated[str, "the rule, or what the error means, in general"]
    help: str
    source: str | None
    backends: Annotated[tuple[str, ...], "that use the rule; none for an error"]


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """One rule or error."""

    id: Annotated[str, Pattern("^[A-Z][0-9]{3}$"), Column("id")]
    backends: Annotated[
        tuple[str, ...], "that use the rule; none for an error", Column("backends", fit=Fit.FOLD, rank=1)
    ]
    text: Annotated[str, "the rule, or what the error means, in general", Column("text", fit=Fit.END, least=40)]


@dataclass(frozen=True, kw_only=True)
class Rulebook:
    """explain --rules --json: every rule and error, by id."""

    schema: Literal["fmha.rulebook/1"] = "fmha.rulebook/1"
    rules: tuple[RuleRow, ...]


def rulebook_view(document: Rulebook) -> Table:
    """One row for each."""
    rules = document.rules
    return table_of(RuleRow, rules, f"{counted(len(rules), 'rule')} and errors; fmha explain ID prints the page of one")


def rule_view(document: RulePage) -> Table:
    """The page, with a line for each of its parts."""
    backends = ", ".join(document.backends)
    parts = {"text": document.text, "help": document.help, "backends": backends, "source": document.source}
    return Table(_PARTS, [[part, text] for part, text in parts.items() if text], document.id)


@dataclass(frozen=True, kw_only=True)
class Schemas:
    """schema --json without a name: the names that it takes."""

    schema: Literal["fmha.schemas/1"] = "fmha.schemas/1"
    schemas: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EnvironmentLine:
    """The first line of what run, validate and bench print with --jsonl; records follow."""

    schema: Literal["fmha.environment/1"] = "fmha.environment/1"
    environment: Environment


def environment_view(document: EnvironmentLine) -> Table:
    """The versions, and the state of every backend."""
    found = document.environment
    rows = [["fmha", found.fmha], ["python", found.python], ["platform", found.platform]]
    rows += [[name, backend.state] for name, backend in found.backends.items()]
    return Table(_PARTS, rows, counted(len(found.devices), "device"))


DOCUMENTS = (
    Document(FailurePage, error_view),
    Document(EnvironmentLine, environment_view),
    Document(RulePage, rule_view),
    Document(Rulebook, rulebook_view, rows="rules"),
    Document(Schemas),
    Document(
        Record,
        definitions={
            "check": Check,
            "comparison": Checks,
            "launch": LaunchView,
            "extent": Extent,
            "floor": Annotated[Floor, "Roofline floor: the least time that the machine's peaks allow."],
            "ceiling": Annotated[
                Ceiling, "What the machine reached at best in a short loop right before and right after the launches."
            ],
            "conditions": Annotated[
                ProcessorConditions, "What the system told of the processor beside the timed launches."
            ],
            "measurement": Measurement,
            "ratio": Ratio,
            "processor": Annotated[Processor, "The model of a CPU."],
            "settings": Annotated[Settings, "Run-time settings that depend on the processor."],
            "stage": StageRow,
        },
    ),
    Document(
        Line,
        definitions={
            "key": Key,
            "asked": JournalRow,
            "finished": Finished,
            "start": Start,
            "built": JournalBuilt,
            "planned": JournalPlanned,
            "done": JournalDone,
        },
        about="One line of a journal: start once, built after the builds of each session, then planned before a row is "
        "dispatched and done after it.",
    ),
)
