"""``fmha workloads``."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.report.documents.workloads import workloads_document
from fmha_cli.workloads.reading import read_workload


def workloads(call: CliCall) -> None:
    """The distinct calls of a file."""
    call.output.document(workloads_document(read_workload(Path(call.argument("file") or ""), "fmha workloads")))
