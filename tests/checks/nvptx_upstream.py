"""Execute the launches of FlashAttention's own host code on an emulated device, next to this tool's launches, and
compare the outputs.

Upstream's ``flash_api.cpp`` is compiled for the host. Each problem runs in a process of its own (``upstream_launches.py`` of the PTX
emulator's tests). A row is good if the launches, their parameter structs, the numbers of executed instructions and every bit of the outputs
are the same, and our launches have no finding. Upstream's launches use the buffers that its host code asked for, so a finding in them alone is
upstream's.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.checks.check import Check, Row, output_of, product, run_module
from tests.checks.tables import table

DEVICE = "emu:sm_80"
CHILD = "fmha_nvptx_emu_tests.support.upstream_launches"
SECONDS = 3600.0
"""For one problem: NVRTC needs minutes for a kernel."""

PROBLEMS = (
    "-b 1 -H 2 -s 1024 -d 128 --lse",
    "-b 1 -H 2 -s 200 -d 32 --causal --lse",
    "-b 1 -H 2 -s 70 --seqlen-k 600 -d 32 --splits 4 --lse --softcap 20",
    "-b 1 -H 2 -s 70 --seqlen-k 600 -d 32 --splits 4 --causal --alibi",
    "-b 1 -H 2 -s 70 --seqlen-k 600 -d 32 --splits 4 --lse --mask window:40,10",
    "-b 2 -H 2 -s 4 -d 32 --kv-cache paged:256 --cache-seqlens 300,7 --append 4 --lse --splits 2",
    "-b 2 -H 2 -s 4 -d 32 --kv-cache linear --cache-seqlens 300,7 --append 4 --lse --splits 2 --causal",
    "--seqlens-q 70,5 --seqlens-k 70,130 -H 2 -d 32 --causal --lse",
    "-b 1 -H 2 -s 100 -d 32 --direction bwd",
    "-b 1 -H 2 -s 100 -d 32 --direction bwd --deterministic",
    "-b 1 -H 2 -s 130 -d 32 --direction bwd --softcap 20",
    "-b 1 -H 2 -s 130 -d 32 --direction bwd --mask window:40,10",
    "-b 1 -H 2 -s 130 -d 32 --direction bwd --causal --alibi",
    "--seqlens-q 70,5 --seqlens-k 70,130 -H 2 -d 32 --causal --direction bwd",
)
"""Forward with splits that upstream chooses, causal, with features, from a cache with new keys, and packed; backward likewise."""


def asked(problem: str, device: str = DEVICE, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Both sides of one problem, in a process of its own. Raises ``subprocess.TimeoutExpired``."""
    return run_module(CHILD, device, problem, plugin="fmha-nvptx-emu", seconds=seconds)


def faults(told: Mapping[str, Any]) -> list[str]:
    """The differences of the two sides, and what was not shown."""
    return list(_faults(told))


def _faults(told: Mapping[str, Any]) -> Iterator[str]:
    yield from told["launch_faults"]
    yield from (f"{name} differs" for name in told["differ"])
    yield from (f"{name} holds one value" for name in told["constant"])
    yield from said(told["findings"][0])
    ours, theirs = told["instructions"]
    if ours != theirs:
        yield f"instructions: {theirs} upstream, {ours} here"
    if not ours and not theirs:
        yield "nothing was launched"
    if not told["bytes"]:
        yield "nothing was compared"


def said(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The emulator's findings as text, with no address of the host's memory."""
    return [f"{one['kind']}: {re.sub(r' at 0x[0-9a-f]+', '', one['text']).partition(' (0x')[0]}" for one in findings]


def row_of(problem: str) -> Row:
    """Run one problem.

    Raises:
        subprocess.TimeoutExpired: it takes longer than an hour.
        ValueError: the process failed; the last line that it wrote.
    """
    told = json.loads(output_of(asked(problem)))
    return {"device": DEVICE, "problem": problem, "told": told, "faults": faults(told)}


def summary(rows: Sequence[Row]) -> str:
    """One line for each problem."""
    same = sum(not row["faults"] for row in rows)
    lines = (
        (
            f"`{row['problem']}`", f"`{row['told']['api']}`", ", ".join(f"`{name}`" for name in row["told"]["kernels"]),
            ", ".join(f"{n:,}" for n in row["told"]["instructions"][1]), ", ".join(row["told"]["bytes"]),
            "; ".join(row["faults"]) or "same", "; ".join(said(row["told"]["findings"][1])),
        )
        for row in rows
    )  # fmt: skip
    columns = (
        "problem",
        "upstream's function",
        "launches",
        "warp instructions",
        "outputs",
        "",
        "findings in upstream's launches alone",
    )
    return f"{same} of {len(rows)} problems are the same on both sides.\n\n{table(columns, lines)}"


CHECK = Check(
    cases=lambda: PROBLEMS,
    carry_out=row_of,
    depends=lambda problem: product("fmha-nvptx-emu"),
    good=lambda row: not row["faults"],
    by=("device", lambda row: "; ".join(row["faults"]) or "same"),
    summarise=summary,
)
