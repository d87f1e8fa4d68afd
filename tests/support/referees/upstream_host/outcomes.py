"""The outcome of a comparison: equal, refused by both, or a known difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.referees.upstream_host.compare import Compared, launch_faults, reasons_against

REFUSED_HERE = {
    "K422": "mha_fwd_kvcache pads a head dim that is not a multiple of 8 and copies the whole cache for it",
    "K431": "ALiBi under a mask from the top left: the kernels measure distances from the other corner",
    "K434": "head dim 256 backwards with dropout: upstream launches no kernel where shared memory is short, silently",
    "K456": "as K434, said of the kernel for sm_80 that is nearest",
    "K435": "packed queries over pages: the split-KV kernel ignores the dropout that mha_varlen_fwd takes",
    "K439": "appended keys before every row's window are not written to the cache",
    "K441": "rotary: upstream's positions of queries are not those of the contract",
    "K444": "no query rows: upstream asks CUDA for a grid without blocks",
    "K445": "no keys backwards: upstream asks CUDA for a grid without blocks",
    "K446": "a window of rows that are more than the keys: the host takes a bound past every key as unlimited, which it is not",
    "K453": "more than 2^31 elements of partial outputs: 32-bit offsets",
}
"""Our rules that refuse what upstream's host code accepts, and why."""
BESIDE = {"K009", "K466"}
"""Reasons that come along with those: the kernel ignores dropout (K434, K435), or reads the padded head dim (K422)."""
SERVED_HERE = {
    "no argument for: a number of splits with packed queries of one row each": "grouped heads become rows, which may be",
    "no argument for: a linear cache with packed queries": "the kernels take lengths, no API passes them so",
    "shape is invalid for input of size": "one row a sequence but for some without: upstream's reshape fails",
}
"""What upstream refuses or cannot be asked, and we support."""
RULES = {
    "no argument for: both passes at once": "K025",
    "no argument for: sink": "K427",
    "no argument for: sink logits": "K428",
    "no argument for: dropout with": "K435 K009",
    "no argument for: elementwise bias": "K426",
    "no argument for: a number of splits with packed queries of several rows": "K443",
    "no argument for: appending to a cache with packed queries": "K437",
    "no argument for: scales of quantised tensors": "K429",
    "no argument for: mask from the top left": "K430",
    "no argument for: a mask bound": "K430",
    "Softcapping does not support dropout for now": "K425",
    "Paged KV cache block size must be divisible by 256": "K436",
    "query, key, value, and out_ must have a head_size that is a multiple of 8": "K422",
    "head_size should be a multiple of 8": "K422",
    "FlashAttention forward only supports head dimension at most 256": "K423",
    "FlashAttention backward only supports head dimension at most 256": "K423",
    "FlashAttention only support fp16 and bf16 data type": "K420",
    "Output must have the same dtype as inputs": "K421",
    "query and out must have the same dtype": "K421",
    "v must have shape": "K424",
    "vcache must have shape": "K424",
    "If key is supplied, it must have seqlen <= the seqlen of the KV cache": "K438",
    "Only rotary dimensions divisible by 16 are currently supported": "K440",
    "num_splits > 128 not supported": "K442",
}
"""Our rules (any of several) that match one of upstream's checks, by the start of its message."""


@dataclass
class Outcomes:
    """Counts by outcome, the launched template-ids, and the cases that differ for no known reason."""

    counts: Counter[str] = field(default_factory=Counter)
    templates: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    equal: list[Compared] = field(default_factory=list)

    def add(self, found: Iterable[Compared]) -> None:
        for one in found:
            name, faults = outcome(one)
            self.counts[name] += 1
            self.faults += [f"{one.case.text()}\n  {fault}" for fault in faults]
            if not faults and one.theirs and name.startswith("equal"):
                self.equal.append(one)
                self.templates |= {launch.kernel for launch in one.theirs.launches}

    def served(self, api: str = "") -> int:
        """The number of problems that both support, with equal launches."""
        return sum(n for name, n in self.counts.items() if name.startswith(f"equal: {api}"))

    def lines(self) -> str:
        """The counts, largest first."""
        return "\n".join(f"  {n:6} {name}" for name, n in self.counts.most_common())


def outcome(found: Compared) -> tuple[str, list[str]]:
    """The name of the outcome, and the faults."""
    refused = found.refused
    if found.ours.refused:
        return _both_refuse(found, refused) if refused else _we_refuse(found)
    if refused:
        known = next(
            (f"served here: {text} ({why})" for text, why in SERVED_HERE.items() if refused.startswith(text)), ""
        )
        return known or "mismatch", [] if known else [f"upstream refuses: {refused}"]
    assert found.call is not None
    faults = list(launch_faults(found))
    if not faults:
        launched = bool(found.ours.stages)
        return f"equal: {found.call.api if launched else 'no launch, the host fills'}", []
    if _reads_what_is_not_there(found):
        return "no keys and one split asked for: filled here, upstream's kernel may read before K", []
    return "mismatch", faults


def _both_refuse(found: Compared, text: str) -> tuple[str, list[str]]:
    if any(text.startswith(start) for start in SERVED_HERE):
        return f"refused by both: {text}", []  # upstream cannot be asked, whatever else may be wrong
    rules = next((RULES[start] for start in sorted(RULES, key=len, reverse=True) if text.startswith(start)), "")
    reasons = reasons_against(found.case, found.theirs)
    said = set(rules.split()) & set(reasons)
    return f"refused by both: {text}", [] if said else [f"upstream says {text!r}, we say {reasons}"]


def _we_refuse(found: Compared) -> tuple[str, list[str]]:
    reasons = set(reasons_against(found.case, found.theirs))
    ours = sorted(reasons & REFUSED_HERE.keys())
    if not ours or reasons - REFUSED_HERE.keys() - BESIDE:
        return "mismatch", [f"upstream serves it, we say {sorted(reasons)}"]
    return f"refused here: {', '.join(ours)}", []


def _reads_what_is_not_there(found: Compared) -> bool:
    assert found.call is not None
    no_keys = found.case.problem.seqlen_k == 0 and found.case.problem.splits == 1
    return no_keys and found.call.api == "mha_fwd_kvcache" and not found.ours.stages
