"""Why one kernel was taken and not another, in one sentence, the rules behind it, and the fields in which two kernels differ; why one backend
and not another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fmha_cli.discovery.select import Choice, Selection
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import CPU, NO_DEVICE
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import KernelSpec


@dataclass(frozen=True, kw_only=True)
class FieldDifference:
    """A field in which two kernels differ, with the values as names write them."""

    part: str
    field: str
    a: str
    b: str


def differences(a: KernelSpec, b: KernelSpec) -> tuple[FieldDifference, ...]:
    """Every field in which two kernels differ. A field that one of them lacks is empty there."""
    out = []
    for part, one, two in (
        ("kernel", a, b),
        ("signature", a.signature, b.signature),
        ("algorithm", a.algorithm, b.algorithm),
    ):
        fields = dict.fromkeys((*_values(one, part), *_values(two, part)))
        for name in fields:
            values = [_values(noun, part).get(name, "") for noun in (one, two)]
            out += [FieldDifference(part=part, field=name, a=values[0], b=values[1])] if values[0] != values[1] else []
    return tuple(out)


def _values(noun: object, part: str) -> dict[str, str]:
    names = ("backend", "family", "arch") if part == "kernel" else tuple(vars(noun))
    return {name: field_text(getattr(noun, name)) for name in names if not name.startswith("_")}


DIGITS = 12
"""Hex digits that identify a kernel to people."""
_RULE = re.compile(r"\b[A-Z]\d{3}\b")


def short(kernel: KernelSpec) -> str:
    """``fwd 08ebe6051a2b``."""
    return f"{kernel.family.value} {kernel.digest[:DIGITS]}"


def because(selection: Selection) -> str | None:
    """Why the best kernel was chosen, and why not the next one, or the nearest refused one; None if nothing serves."""
    best = selection.best
    if best is None:
        return None
    others = [choice for choice in selection.choices if choice.kernel != best.kernel]
    misses = [miss for miss in selection.trace.unsupported if miss.kernel is not None]
    start = f"{short(best.kernel)} because {_reason_for(best)}"
    if others:
        other = others[0].kernel
        named = short(other) if other.arch == best.kernel.arch else f"{short(other)} for {other.arch}"
        return f"{start}, instead of {named} because {passed_over(selection, best, others[0])}"
    if misses:
        return f"{start}, instead of {_refused(misses[0])}"
    return start


def backend_because(selection: Selection) -> str | None:
    """Why the best kernel's backend was chosen, and not the next one that serves the problem; None if there is none."""
    best = selection.best
    others = (choice for choice in selection.choices if best and choice.kernel.backend != best.kernel.backend)
    other = next(others, None)
    if best is None or other is None:
        return None
    return f"{best.kernel.backend}, not {other.kernel.backend}: {passed_over(selection, best, other)}"


def _reason_for(choice: Choice) -> str:
    return choice.decision.order or f"it comes first in the order of {choice.kernel.backend}"


def _refused(miss: Unsupported) -> str:
    name = short(miss.kernel) if miss.kernel is not None else miss.backend
    return f"{name} because " + " and ".join(f"{reason.id} {reason.text}" for reason in miss.reasons)


def passed_over(selection: Selection, best: Choice, other: Choice) -> str:
    """Why a kernel that fits comes after a better one."""
    if other.device.id == NO_DEVICE != best.device.id:
        return f"no device here accepts {other.kernel.arch}"
    if other.device.id == CPU != best.device.id:
        return f"{best.device.id} comes before the CPU"
    if other.device.id != best.device.id:
        return f"{best.device.id} comes before {other.device.id}"
    if other.kernel.backend != best.kernel.backend:
        here, there = ((choice.kernel.backend, choice.kernel.arch) for choice in (best, other))
        return selection.preference.reason(here, there)
    order = other.decision.order
    if order and order != best.decision.order:
        return f"it is {order}" if order.startswith("not ") else order
    return f"it comes later in the order of {other.kernel.backend}"


def compared(selection: Selection, a: Decision, b: Decision) -> str:
    """One sentence about two decisions: which kernel is ahead and why, or the rule that refuses it.

    Args:
        a, b: decisions about single kernels; of the selection, or refusals.
    """
    names = {id(d): short(d.kernel) for d in (a, b) if d.kernel is not None}
    places = {id(choice.decision): choice for choice in reversed(selection.choices)}
    fit = [d for d in (a, b) if isinstance(d, Supported)]
    refused = [d for d in (a, b) if isinstance(d, Unsupported)]
    if len(fit) == 2:
        first, second = sorted((places[id(a)], places[id(b)]), key=selection.choices.index)
        one, two = names[id(first.decision)], names[id(second.decision)]
        if first.decision.order and first.decision.order == second.decision.order:
            ranks = " and ".join(str(selection.choices.index(choice) + 1) for choice in (first, second))
            return f"{one} comes before {two} in the order of {first.kernel.backend} (ranks {ranks})"
        return f"{one} comes before {two}: {_reason_for(first)}; {two}: {passed_over(selection, first, second)}"
    if fit:
        return f"{names[id(fit[0])]} fits; {_refused(refused[0])} does not"
    return f"neither fits: {'; '.join(map(_refused, refused))}"


def rule_ids(decision: Decision) -> tuple[str, ...]:
    """The rules that a decision names: the ones that refuse the kernel, or the ones that ordered it."""
    if isinstance(decision, Unsupported):
        return tuple(dict.fromkeys(reason.id for reason in decision.reasons))
    return tuple(dict.fromkeys(_RULE.findall(decision.note)))


def placed(choices: Sequence[Choice], decision: Decision) -> int | None:
    """The rank of a decision, 1 for the best; None for a refusal."""
    return next((n for n, choice in enumerate(choices, 1) if choice.decision is decision), None)
