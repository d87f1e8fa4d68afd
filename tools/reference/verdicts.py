"""``verdicts.md``: every verdict and every exit code."""

from __future__ import annotations

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.parity.outcome import exit_code_of as code_of_outcomes
from fmha_cli.report.documents.invariance import DifferingStage, InvarianceOutcome
from fmha_cli.report.documents.parity import ParityOutcome

from .docstrings import member_texts
from .markdown import code, page, plain, section, table


def pages() -> dict[str, str]:
    """The page of verdicts and exit codes."""
    return {
        "verdicts.md": page(
            "Verdicts and exit codes",
            "Each row of `run`, `validate` and `bench` has one verdict, and each case of `parity` and property of `validate --invariant` one outcome. Together they give the exit code.",
            section("Verdicts", _verdicts()),
            section("Exit codes", _codes(), _precedence()),
            section("Outcomes of parity", _outcomes()),
            section("Outcomes of invariance", _invariances(), _stages()),
        )
    }


def _verdicts() -> str:
    texts = member_texts(Verdict)
    return table(
        ("verdict", "meaning", "exit code"),
        ((code(v.value), plain(texts[v.name]), str(int(v.exit_code))) for v in Verdict),
    )


def _codes() -> str:
    texts = member_texts(ExitCode)
    rows = (
        (str(int(c)), plain(texts[c.name]), ", ".join(code(v.value) for v in Verdict if v.exit_code is c))
        for c in ExitCode
    )
    return table(("code", "meaning", "verdicts"), rows)


def _outcomes() -> str:
    texts = member_texts(ParityOutcome)
    rows = ((code(o.value), plain(texts[o.name]), str(int(code_of_outcomes([o])))) for o in ParityOutcome)
    return table(("outcome", "meaning", "exit code if every case has it"), rows)


def _invariances() -> str:
    texts = member_texts(InvarianceOutcome)
    failed = InvarianceOutcome.FAILED
    codes = {o: "1 or 6" if o is failed else str(int(o.verdict(Verdict.PASSED).exit_code)) for o in InvarianceOutcome}
    return table(("outcome", "meaning", "exit code"), ((code(o), plain(texts[o.name]), codes[o]) for o in codes))


def _stages() -> str:
    texts = member_texts(DifferingStage)
    return table(("stage", "what differs"), ((code(s.value), plain(texts[s.name])) for s in DifferingStage))


def _precedence() -> str:
    """The order of the codes, found by asking which one wins of each two."""
    codes = [c for c in ExitCode if c is ExitCode.INTERRUPTED or any(v.exit_code is c for v in Verdict)]
    ordered = sorted(codes, key=lambda one: -sum(_wins(one, other) for other in codes))
    return f"If several apply, the first of these is the exit code: {', '.join(str(int(c)) for c in ordered)}."


def _wins(one: ExitCode, other: ExitCode) -> bool:
    rows = [v for c in (one, other) for v in Verdict if v.exit_code is c][:]
    return exit_code_of(rows, interrupted=ExitCode.INTERRUPTED in (one, other)) is one
