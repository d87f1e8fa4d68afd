"""The table of ``explain --why``: two kernels compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmha_cli.report.column import Column, Fit
from fmha_cli.report.lines import DIGITS, problem_text, reason_text
from fmha_cli.report.table import Table


def why_view(document: Mapping[str, Any]) -> Table:
    """The fields that differ; below, what was decided about each kernel, the rules behind it, and the sentence."""
    sides = {name: document[name] for name in ("a", "b")}
    rows = [[d["field"], d["a"], d["b"]] for d in document["differences"]]
    details = []
    for name, side in sides.items():
        state = f"rank {side['rank']}" if side["supported"] else "refused"
        details.append(f"{name}: {side['backend']} {side['arch']} {side['family']} {side['digest'][:DIGITS]}, {state}")
        same = name == "b" and side["note"] == sides["a"]["note"]
        details += [f"  {'as a' if same else side['note']}"] if side["note"] else []
        details += [f"  {reason_text(reason)}" for reason in side["reasons"]]
    details += [f"rule {rule['id']} ({rule['kernel']}): {rule['text']}" for rule in document["rules"]]
    heads = (f"{name} {side['digest'][:DIGITS]}" for name, side in sides.items())
    columns = (Column("field"), *(Column(head, fit=Fit.END, least=12) for head in heads))
    return Table(columns, rows, f"{problem_text(document['problem'])}: {document['because']}", details)
