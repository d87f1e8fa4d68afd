"""Execute what a rule of a CUDA backend refuses on an emulated device, to see whether the rule is needed.

    python benchmarks/nvptx_hazards.py [--only TEXT] [--json FILE] [--markdown FILE]

Each hazard runs in a process of its own, in which the check of one rule finds nothing. Everything else is as with ``fmha run``: the
kernel that upstream's host code would take, the judge, the emulator's checks. *Confirmed*: the verdict is not PASSED. *Withdrawn*: PASSED, so
this problem gives no reason for the rule. Rules that stand for something that cannot be executed are listed with the reason. The script
exits with 1 if a hazard could not be run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "fmha.nvptx-hazards/1"
SECONDS = 3600.0
"""For one problem: NVRTC may have to compile its kernel."""


@dataclass(frozen=True)
class Hazard:
    """A rule, and the smallest problem that breaks it. ``says``: what the rule's source claims."""

    rule: str
    backend: str
    problem: str
    says: str


ME, FA = "mem_efficient", "flash_attn"
HAZARDS = (
    Hazard("K521", ME, "-b 1 -H 1 -s 200 --seqlen-k 100 -d 64 --causal", "the first rows see every key"),
    Hazard("K522", ME, "-b 1 -H 1 -s 64 --seqlen-k 100 -d 64 --mask window:30,0 --direction bwd", "the window lies elsewhere"),
    Hazard("K523", ME, "-b 1 -H 1 -s 70 --seqlen-k 1 -d 64 --lse --scale 0", "the maximum -0.0 is lost, and the LSE is -inf"),
    Hazard("K523", ME, "-b 1 -H 1 -s 70 --seqlen-k 1 -d 64 --lse --scale 1e-40", "a scale below 2^-126 counts as 0"),
    Hazard("K524", ME, "-b 1 -H 1 -s 70 -d 64 --dropout 0.99999", "P is multiplied by an infinite factor"),
    Hazard("K527", ME, "--seqlens-q 70,40 --seqlens-k 70,130 -H 1 -d 64 --bias elementwise:bhss --direction bwd", "sequences get the bias of the first"),
    Hazard("K532", ME, "-b 1 -H 1 -s 100 --seqlen-k 70 -d 64 --direction bwd", "whole tiles are read and written"),
    Hazard("K535", ME, "-b 1 -H 1 -s 100 --seqlen-k 9 -d 64 --mask window-tl:4,0 --direction fwd+bwd", "the backward kernel reads NaN"),
    Hazard("K432", FA, "-b 1 -H 2 -s 100 -d 32 --splits 2 --lse --scale -0.5", "the maximum is that of unscaled scores, so the sum overflows"),
    Hazard("K432", FA, "-b 1 -H 2 -s 100 -d 32 --splits 2 --lse --scale 0", "0 times a masked score is NaN"),
    Hazard("K446", FA, "-b 1 -H 2 -s 100 --seqlen-k 40 -d 32 --splits 2 --mask window:20,45", "a right bound of seqlen_k or more counts as none"),
    Hazard("K438", FA, "-b 1 -H 2 -s 8 -d 32 --kv-cache linear --cache-seqlens 0 --append 4 --splits 2", "upstream's own limit: more rows than keys"),
    Hazard("K439", FA, "-b 1 -H 2 -s 1 -d 32 --kv-cache linear --cache-seqlens 100 --append 400 --mask window:10,0 --splits 2", "new keys before every window never reach the cache"),
)  # fmt: skip

NOT_EXECUTED = {
    "K520": "the kernels have no parameter for such a mask",
    "K525": "2^31 elements of P: days on the emulator",
    "K526": "the kernels have no parameter for slopes",
    "K528": "the kernels have no parameter for a block table",
    "K529": "tensors of 2^31 elements: more memory than the emulator's host has",
    "K530": "the driver refuses a grid of 65,536 on its second or third axis, as on hardware: no kernel to execute",
    "K531": "the launch is refused, as on hardware: no kernel to execute",
    "K533": "no hazard: upstream has another kernel there",
    "K534": "no hazard: nothing computes what the backward kernel reads",
    "K536": "no two kernels of sm_80 pad head dims differently",
    "K453": "partial outputs of 2^31 elements: more memory than the emulator's host has",
}


@dataclass(frozen=True)
class Row:
    """What one hazard came to. ``worst``: of finite rows. ``error``: why there is no record; then the rest is empty."""

    hazard: Hazard
    verdict: str
    findings: dict[str, int]
    worst: dict[str, float | None]
    notes: str
    error: str = ""
    nonfinite: dict[str, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """Confirmed, withdrawn, or NOT_RUN."""
        if self.error or self.verdict in ("", "UNSUPPORTED", "NOT_RUN"):
            return "NOT_RUN"
        return "withdrawn" if self.verdict == "PASSED" else "confirmed"


def loosen(id: str) -> None:
    """Let the check of a rule find nothing, in this process, before any backend is imported.

    Raises:
        RuntimeError: a backend is imported already, and holds the check.
    """
    from fmha_cli.backends.gpu import rule_rows

    if any(name.endswith((".problem_rules", ".choosing")) for name in sys.modules):
        raise RuntimeError("a backend's rules are made already")
    made: Callable[..., Any] = rule_rows.conditions

    def conditions(backend: str, checks: Mapping[str, Callable[..., Any]]) -> Any:
        return made(backend, {one: (lambda s, k: None) if one == id else check for one, check in checks.items()})

    rule_rows.conditions = conditions


def child(rule: str, backend: str, flags: str) -> None:
    """Run a problem without a rule in this process, and print the record."""
    loosen(rule)
    from fmha_cli.api import Problem, run

    (record,) = run(Problem.from_cli(flags), backend=backend, device="emu:sm_80", timeout=SECONDS)
    print(json.dumps(record.to_dict()))


def row_of(hazard: Hazard) -> Row:
    """Run a hazard in a process of its own."""
    command = [sys.executable, __file__, "--child", hazard.rule, hazard.backend, hazard.problem]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Row(hazard, "", {}, {}, "", f"more than {SECONDS:g} seconds")
    if done.returncode:
        return Row(hazard, "", {}, {}, "", (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
    return of_record(hazard, json.loads(done.stdout))


def of_record(hazard: Hazard, record: Mapping[str, Any]) -> Row:
    """The row of a record."""
    kinds: dict[str, int] = {}
    for found in record["findings"] or ():
        kinds[found["kind"]] = kinds.get(found["kind"], 0) + 1
    worst = {name: check["row_l2"] for name, check in (record["checks"] or {}).items() if check}
    infinite = {
        name: check["nonfinite"] for name, check in (record["checks"] or {}).items() if check and check["nonfinite"]
    }
    fills = (note for fill in record["fill_notes"] or () for note in fill["notes"])
    notes = "; ".join(map(str, (*(record["notes"] or ()), *fills)))[:300]
    return Row(hazard, record["verdict"], kinds, worst, notes, nonfinite=infinite)


def unwritten(notes: str) -> str:
    """The outputs that hold NaN, which the judge calls never written, because it fills them with NaN before the launch."""
    found = re.findall(r"(\w+): (\d+) of (\d+) elements never written", notes)
    return ", ".join(f"{name}: {some} of {every} elements are NaN or were never written" for name, some, every in found)


def table(rows: Sequence[Row]) -> str:
    """Markdown: one line for each hazard, then the rules that were not executed."""
    lines = ["| rule | backend | problem | claim | verdict | seen | state |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        h = row.hazard
        kinds = ", ".join(f"`{kind}` at {n} instructions" for kind, n in row.findings.items())
        errors = ", ".join(
            f"{name} {value:.1e}" if value is not None else f"{name} not finite" for name, value in row.worst.items()
        )
        seen = row.error or "; ".join(
            filter(
                None,
                (
                    kinds,
                    unwritten(row.notes),
                    *re.findall(r"\w+ after the append is wrong: \d+ of \d+ rows", row.notes),
                    *(f"{name}: {n} elements finite on one side alone" for name, n in row.nonfinite.items()),
                    f"worst finite row: {errors}" if errors else "",
                ),
            )
        )
        lines.append(
            f"| {h.rule} | {h.backend} | `{h.problem}` | {h.says} | {row.verdict or '-'} | {seen} | {row.state} |"
        )
    lines += ["", "| rule | why it was not executed: NOT_RUN |", "|---|---|"]
    return "\n".join((*lines, *(f"| {rule} | {why} |" for rule, why in NOT_EXECUTED.items()), ""))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script. Returns 0 if every hazard was executed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="hazards whose rule, backend or flags hold this text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    parser.add_argument("--child", nargs=3, metavar=("RULE", "BACKEND", "FLAGS"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child is not None:
        child(*given.child)
        return 0
    rows = []
    for hazard in (h for h in HAZARDS if given.only in f"{h.rule} {h.backend} {h.problem}"):
        rows.append(row_of(hazard))
        print(
            f"{rows[-1].state}: {hazard.rule} {hazard.problem}: {rows[-1].verdict} {rows[-1].error}",
            file=sys.stderr,
            flush=True,
        )
    print(text := table(rows))
    if given.json:
        document = {"schema": SCHEMA, "rows": [asdict(row) | {"state": row.state} for row in rows]}
        given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(text, "utf-8")
    return int(not rows or any(row.state == "NOT_RUN" for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
