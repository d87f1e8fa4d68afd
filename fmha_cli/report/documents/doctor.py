"""``fmha.doctor/1``: checks of the installation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.installation import CheckState, DoctorCheck
from fmha_cli.domain.members import ShownAs
from fmha_cli.report.document import Document
from fmha_cli.report.parts import Environment
from fmha_cli.report.table import Table
from fmha_cli.report.units import counted, duration


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """doctor --json."""

    schema: Literal["fmha.doctor/1"] = "fmha.doctor/1"
    ok: Annotated[bool, "no check failed"]
    checks: tuple[DoctorCheck, ...]
    environment: Annotated[Mapping[str, Any], ShownAs(Environment)]


def doctor_document(checks: Iterable[DoctorCheck], environment: Mapping[str, Any]) -> dict[str, Any]:
    """The document of some checks."""
    rows = tuple(checks)
    failed = any(check.state is CheckState.FAILED for check in rows)
    return to_json(Doctor(ok=not failed, checks=rows, environment=environment))


def doctor_view(document: Mapping[str, Any]) -> Table:
    """One line for each check; the cause and the remedy below."""
    checks = document["checks"]
    rows = [[c["state"], c["name"], c["subject"], c["what"], duration(c["time_ns"])] for c in checks]
    details = [
        f"  {check['name']} {check['subject']}: {text}"
        for check in checks
        for text in (check["why"], f"help: {check['help']}" if check["help"] else None)
        if text
    ]
    states = [check["state"] for check in checks]
    tally = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    headers = ["state", "check", "subject", "finding", "time"]
    return Table(headers, rows, f"{counted(len(checks), 'check')}: {tally}", details)


DOCUMENT = Document(Doctor, doctor_view, rows="checks")
