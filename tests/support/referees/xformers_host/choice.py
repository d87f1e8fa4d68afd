"""Compares our choice of a kernel with upstream's, for problems without a plan: dense tensors, as a user has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fmha_cli.codegen.mem_efficient.traits import traits_of
from tests.support.referees.upstream_host.client import Answer, Call
from tests.support.referees.xformers_host.calls import NoCall, call_of, device_of, plain_tensors
from tests.support.referees.xformers_host.client import XformersHost
from tests.support.referees.xformers_host.ours import EfficientProblem, chosen, reasons_against

PADDED = {"fp32": 4, "fp16": 8, "bf16": 8}
"""Elements of the largest load, to multiples of which the host pads head dims."""
REFUSED_HERE = {
    "K521": "bottom-right masks with more rows than keys: the kernel masks nothing",
    "K522": "backward windows with unequal lengths: the kernel forgets keys - rows",
    "K523": "scales of 0 and below: the maximum -0.0 is lost",
    "K524": "dropout whose factor is infinite",
    "K525": "dropout streams of 2^31 and more words",
    "K529": "32-bit products that overflow",
    "K530": "more blocks than the grid or 16 bits hold",
}
"""Problems that upstream takes and this tool refuses, by rule."""
RULES = {
    "cu seqlen + bias not supported": {"K527"},
    "no kernel found to launch": {"K001"},
    "max_seqlen_q required": {"K001"},
    "max_seqlen_k required": {"K001"},
}
"""Our rules that say what one of upstream's checks says."""
SERVED_HERE = {
    "max_seqlen_q required": "packed sequences without rows: the host fills the outputs",
    "max_seqlen_k required": "packed sequences without keys: the host fills the outputs",
}
UNALIGNED = ("is not correctly aligned", "no kernel found to launch")
"""What upstream says of tensors that the host pads here."""


@dataclass
class Choices:
    """Counts by outcome, the kernels that both chose, and the cases that differ for no known reason."""

    counts: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def lines(self) -> str:
        """The counts, largest first."""
        return "\n".join(f"  {n:6} {name}" for name, n in self.counts.most_common())


def choices(host: XformersHost, cases: Sequence[EfficientProblem]) -> Choices:
    """Ask both sides about every case."""
    out, plain, padded = Choices(), [_call(case, 1) for case in cases], list[Call]()
    answers = iter(host.ask(call for call in plain if isinstance(call, Call)))
    first = [next(answers) if isinstance(call, Call) else call for call in plain]
    again = [isinstance(a, Answer) and any(text in a.refused for text in UNALIGNED) for a in first]
    for case, wanted in zip(cases, again, strict=True):
        call = _call(case, PADDED[case.problem.dtype.value]) if wanted else None
        padded += [call] if isinstance(call, Call) else []
    second = iter(host.ask(padded))
    for case, answer, wanted in zip(cases, first, again, strict=True):
        found = next(second) if wanted else answer
        name, faults = _outcome(case, found, out)
        name += ", padded by the host" if wanted and name == "the same kernel" else ""
        out.counts[name] += 1
        out.faults += [f"{case.text()}\n  {fault}" for fault in faults]
    return out


def _call(case: EfficientProblem, step: int) -> Call | str:
    p = case.problem
    try:
        # NoCall comes first: such problems need not have tensors that upstream could take.
        call_of(
            p, device_of(case.arch), dict.fromkeys(("query", "key", "value", "grad_out", "out", "logsumexp")), lse=False
        )  # type: ignore[arg-type]
        return call_of(p, device_of(case.arch), plain_tensors(p, step), lse=p.lse)
    except NoCall as what:
        return what.what


def _outcome(case: EfficientProblem, found: Answer | str, out: Choices) -> tuple[str, list[str]]:
    kernel = chosen(case)
    ours = traits_of(kernel).name if kernel else ""
    if isinstance(found, str):
        return f"no argument for {found}", [f"served here by {ours}"] if ours else []
    theirs = [launch.kernel for launch in found.launches]
    if not ours:
        return _we_refuse(case, found, theirs)
    if found.refused:
        known = next((why for text, why in SERVED_HERE.items() if text in found.refused), "")
        return known or "mismatch", [] if known else [f"upstream refuses: {found.refused}"]
    if not theirs:
        empty = not (case.problem.seqlen_q and case.problem.seqlen_k)
        return "nothing to launch", [] if empty else ["upstream launches nothing"]
    if theirs != [ours]:
        return "mismatch", [f"{theirs} upstream, {ours} here"]
    out.kernels[ours] += 1
    return "the same kernel", []


def _we_refuse(case: EfficientProblem, found: Answer, theirs: list[str]) -> tuple[str, list[str]]:
    reasons = set(reasons_against(case))
    if found.refused:
        rules = next((ids for text, ids in RULES.items() if text in found.refused), set[str]())
        good = bool(rules & reasons) or bool(reasons & REFUSED_HERE.keys())
        return f"refused by both: {found.refused}", [] if good else [
            f"upstream says {found.refused!r}, we say {sorted(reasons)}"
        ]
    known = sorted(reasons & REFUSED_HERE.keys())
    if not known:
        return "mismatch", [f"upstream takes {theirs}, we say {sorted(reasons)}"]
    return f"refused here: {', '.join(known)}", []
