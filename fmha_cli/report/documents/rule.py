"""``fmha.rule/1``: the page of a rule or error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fmha_cli.domain.members import Pattern
from fmha_cli.report.document import Document


@dataclass(frozen=True, kw_only=True)
class RulePage:
    """explain ID --json: the page of a rule or error."""

    schema: Literal["fmha.rule/1"] = "fmha.rule/1"
    id: Annotated[str, Pattern("^[A-Z][0-9]{3}$")]
    text: Annotated[str, "the rule, or what the error means, in general"]
    help: str
    source: str | None
    backends: Annotated[tuple[str, ...], "that use the rule; none for an error"]


DOCUMENT = Document(RulePage)
