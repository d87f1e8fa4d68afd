"""Launch what FlashAttention's own host code asks for on an emulated device, beside this tool's launches, and compare the outputs.

    python benchmarks/nvptx_upstream.py [--device emu:sm_80] [--only TEXT] [--problem FLAGS ...] [--json FILE] [--markdown FILE]

Upstream's ``flash_api.cpp`` is compiled for the host, as for ``tests/backends/flash_attn``. Each problem runs in a process of its own
(``plugins/fmha-nvptx-emu/fmha_nvptx_emu_tests/support/upstream_launches.py``). A row is the same if the launches, their parameter structs, the numbers of
executed instructions and every bit of the outputs are, and our launches have no finding. Upstream's launches use the buffers that its host
code asked for, so a finding in them alone is upstream's. The script exits with 1 unless every row is. No figure is a GPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCHEMA = "fmha.nvptx-upstream/1"
ROOT = Path(__file__).resolve().parents[1]
CHILD = ROOT / "plugins" / "fmha-nvptx-emu" / "fmha_nvptx_emu_tests" / "support" / "upstream_launches.py"
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


@dataclass(frozen=True)
class Row:
    """One problem. ``told``: what ``upstream_launches.compared`` returned, None if it failed. ``faults``: empty if both are the same."""

    device: str
    problem: str
    told: Mapping[str, Any] | None
    faults: tuple[str, ...]


def asked(device: str, problem: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Both sides of one problem, in a process of its own. Raises ``subprocess.TimeoutExpired``."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, str(CHILD), device, problem]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=seconds)


def faults(told: Mapping[str, Any]) -> list[str]:
    """What is not the same on both sides, or was not shown."""
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


def row_of(device: str, problem: str) -> Row:
    """Run one problem; a child that fails is a row too."""
    try:
        done = asked(device, problem)
    except subprocess.TimeoutExpired:
        return Row(device, problem, None, (f"more than {SECONDS:g} seconds",))
    if done.returncode:
        return Row(device, problem, None, ((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1],))
    told = json.loads(done.stdout)
    return Row(device, problem, told, tuple(faults(told)))


def table(rows: Sequence[Row]) -> str:
    """Markdown: one line for each problem."""
    same = sum(not row.faults for row in rows)
    lines = [
        f"{same} of {len(rows)} problems are the same on both sides.",
        "",
        "| problem | upstream's function | launches | warp instructions on either side | outputs, bytes | | findings in upstream's launches alone |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        told = row.told or {"api": "-", "kernels": (), "instructions": ((), ()), "bytes": {}, "findings": ((), ())}
        counts = ", ".join(f"{n:,}" for n in told["instructions"][1])
        outputs = ", ".join(f"{name} {size:,}" for name, size in told["bytes"].items())
        launches = ", ".join(f"`{name}`" for name in told["kernels"])
        cells = (
            f"`{row.problem}`",
            f"`{told['api']}`",
            launches,
            counts,
            outputs,
            "; ".join(row.faults) or "same",
            "; ".join(said(told["findings"][1])),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join((*lines, ""))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script. Returns 0 if every row is the same on both sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="emu:sm_80")
    parser.add_argument("--only", default="", help="problems whose flags hold this text")
    parser.add_argument(
        "--problem", nargs="+", default=PROBLEMS, metavar="FLAGS", help="other problems, each one argument"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    given = parser.parse_args(arguments)
    rows = []
    for problem in (p for p in given.problem if given.only in p):
        rows.append(row_of(given.device, problem))
        print(
            f"{'same' if not rows[-1].faults else 'NOT THE SAME'}: {problem} {'; '.join(rows[-1].faults)}",
            file=sys.stderr,
        )
    print(text := table(rows))
    if given.json:
        document = {"schema": SCHEMA, "rows": [asdict(row) for row in rows]}
        given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(text, "utf-8")
    return int(not rows or any(row.faults for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
