"""``fmha workloads``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.domain.quantities import size
from fmha_cli.domain.workload import Workload
from fmha_cli.report.documents.workloads import workloads_document
from fmha_cli.workloads.reading import read_workload

_LARGE = 64 << 20
"""Bytes of a file that takes seconds to read (1 GB: half a minute)."""


def workloads(call: CliCall) -> None:
    """The distinct calls of a file."""
    call.output.document(workloads_document(read_calls(call, call.argument("file") or "", "fmha workloads")))


def read_calls(call: CliCall, name: str, where: str) -> Workload:
    """The calls of a file; one that takes long is told before. Raises as ``read_workload``."""
    path = Path(name)
    with suppress(OSError):
        if path.stat().st_size > _LARGE:
            call.console.say(f"reading {name}, {size(path.stat().st_size)}")
    return read_workload(path, where)
