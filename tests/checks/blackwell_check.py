"""Execute the Blackwell kernel in Gluon on emulated devices, over kinds, lengths and CTAs, and judge its results.

``blackwell_problems.py`` has the problems, ``triton_check.py`` the walk: each is chosen, compiled, executed and judged as with ``fmha run``. A row
is good only if the plugin's Blackwell kernel was chosen; the number of its CTAs is the plan's, or that of a problem that names one, as with
``--kernel``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fmha_triton.catalogue import BLACKWELL, algorithm_of, function_of

from tests.checks import triton_check
from tests.checks.blackwell_problems import all_problems
from tests.checks.check import Check, Row
from tests.checks.triton_check import TritonPoint, build_of, chosen, device_of


def points() -> Iterator[TritonPoint]:
    """Every problem on each of its architectures: in the order of problems, so that a run that is cut short has some of each device."""
    return (TritonPoint(arch, problem) for problem in all_problems() for arch in problem.archs)


def row_of(point: TritonPoint) -> dict[str, Any]:
    """Execute one problem. Another kernel than Blackwell's is a row that does not pass."""
    kernel = chosen(point)
    none = {"arch": point.arch, "kind": point.problem.kind, "flags": point.problem.flags, "ctas": None, "kernel": None}
    if kernel is None:
        return {**none, "verdict": "REFUSED"}
    if function_of(kernel) != BLACKWELL:
        return {**none, "verdict": f"another kernel: {function_of(kernel)}"}
    return {**triton_check.executed(point), "ctas": getattr(algorithm_of(kernel), "num_ctas", 1)}


def device_and_ctas(row: Row) -> str:
    """For the summary."""
    return f"{device_of(row['arch'])}, {row['ctas'] or '-'} CTAs"


CHECK = Check(
    cases=points,
    name=lambda point: point.name,
    carry_out=row_of,
    depends=build_of,
    by=(device_and_ctas, "verdict"),
)
