"""Execute, on an emulated device, problems that a rule of a CUDA backend refuses, to see whether the rule is needed.

Each hazard runs in a process in which the check of one rule finds nothing. Everything else is as with ``fmha run``: the kernel that upstream's
host code would take, the judge, the emulator's checks. *Confirmed*: the verdict is not PASSED. *Withdrawn*: PASSED, so this problem gives no
reason for the rule. Rules that stand for something that cannot be executed are listed with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.checks.check import Check, Row, output_of, product, run_module
from tests.checks.tables import table
from tests.support.children.cuda import loosened_rule


@dataclass(frozen=True)
class Hazard:
    """A rule, and the smallest problem that breaks it. ``says``: the claim of the rule's source."""

    rule: str
    backend: str
    problem: str
    says: str

    @property
    def name(self) -> str:
        return f"{self.rule} {self.backend} {self.problem}"


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


def state_of(verdict: str) -> str:
    """Confirmed, withdrawn, or NOT_RUN."""
    if verdict in ("", "UNSUPPORTED", "NOT_RUN"):
        return "NOT_RUN"
    return "withdrawn" if verdict == "PASSED" else "confirmed"


def row_of(hazard: Hazard) -> Row:
    """Run a hazard in a process of its own.

    Raises:
        subprocess.TimeoutExpired: it takes longer than an hour.
        ValueError: the process failed; the last line that it wrote.
    """
    words = (hazard.rule, hazard.backend, hazard.problem)
    done = run_module(loosened_rule.__name__, *words, seconds=loosened_rule.SECONDS)
    return of_record(hazard, json.loads(output_of(done)))


def of_record(hazard: Hazard, record: Mapping[str, Any]) -> Row:
    """The row of a record; its ``worst`` errors are those of finite rows."""
    kinds: dict[str, int] = {}
    for found in record["findings"] or ():
        kinds[found["kind"]] = kinds.get(found["kind"], 0) + 1
    checks = {name: check for name, check in (record["checks"] or {}).items() if check}
    fills = (note for fill in record["fill_notes"] or () for note in fill["notes"])
    return {
        **asdict(hazard),
        "verdict": record["verdict"],
        "state": state_of(record["verdict"]),
        "findings": kinds,
        "worst": {name: check["row_l2"] for name, check in checks.items()},
        "nonfinite": {name: check["nonfinite"] for name, check in checks.items() if check["nonfinite"]},
        "notes": "; ".join(map(str, (*(record["notes"] or ()), *fills)))[:300],
    }


def seen(row: Row) -> Iterator[str]:
    """The findings of the emulator and the judge, in words."""
    yield from (f"`{kind}` at {n} instructions" for kind, n in row["findings"].items())
    found = re.findall(r"(\w+): (\d+) of (\d+) elements never written", row["notes"])
    # The judge fills outputs with NaN before the launch, so it calls those that hold NaN never written.
    yield from (f"{name}: {some} of {every} elements are NaN or were never written" for name, some, every in found)
    yield from re.findall(r"\w+ after the append is wrong: \d+ of \d+ rows", row["notes"])
    yield from (f"{name}: {n} elements finite on one side alone" for name, n in row["nonfinite"].items())
    errors = (f"{name} {e:.1e}" if e is not None else f"{name} not finite" for name, e in row["worst"].items())
    if text := ", ".join(errors):
        yield f"worst finite row: {text}"


def summary(rows: Sequence[Row]) -> str:
    """One line for each hazard, then the rules that were not executed."""
    return "\n\n".join((
        table(
            ("rule", "backend", "problem", "claim", "verdict", "seen", "state"),
            ((r["rule"], r["backend"], f"`{r['problem']}`", r["says"], r["verdict"], "; ".join(seen(r)), r["state"]) for r in rows),
        ),
        table(("rule", "why it was not executed"), NOT_EXECUTED.items()),
    ))  # fmt: skip


CHECK = Check(
    cases=lambda: HAZARDS,
    name=lambda hazard: hazard.name,
    carry_out=row_of,
    depends=lambda hazard: product("fmha-nvptx-emu"),
    good=lambda row: row["state"] != "NOT_RUN",
    by=("rule", "state"),
    summarise=summary,
)
