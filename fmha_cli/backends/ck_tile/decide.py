"""Which kernels serve a problem, in upstream's order, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fmha_cli.backends.ck_tile.candidates import Candidate, FamilyIndex, family_index
from fmha_cli.backends.ck_tile.condition import BACKWARD, FORWARD, MAIN, conditions_for
from fmha_cli.backends.ck_tile.preferences import Api, api_for, passed_over
from fmha_cli.backends.ck_tile.problem_rules import CONDITIONS, no_kernels
from fmha_cli.backends.ck_tile.situation import Situation, situation_of
from fmha_cli.decision import Decision, Supported, Unsupported
from fmha_cli.device import DeviceFacts
from fmha_cli.features import Direction
from fmha_cli.kernel import Family
from fmha_cli.problem import Problem
from fmha_cli.rules import CORE_RULES, SIGNATURE_RULE_IDS, SIGNATURE_RULES, Reason, Rule, reasons_against

BACKEND = "ck_tile"
UNSIGNED_RULES = tuple(rule for rule in CORE_RULES if rule not in SIGNATURE_RULES)
"""Core rules that compare more than one signature field."""


def decide(problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
    """Every main-stage kernel of the device's architecture that a problem of this direction could mean.

    Refused kernels come nearest case first, so that among equally near misses the one of the API that upstream calls, of the next larger head dim, or
    of the likeliest other dtype, leads.

    ``rank`` is (0 for what upstream's runner would take and 1 otherwise, place of the API, place in the API's chain),
    so that the best kernel is upstream's first match whenever upstream has one.
    """
    found = False
    situation = situation_of(problem, device)
    api = api_for(situation)
    families = sorted(families_for(problem), key=lambda family: family not in api.families)
    for arch in device.archs:
        for family in families:
            index = family_index(arch, family)
            if index.cases:
                found = True
                yield from _decided(situation, index, api)
    if not found:
        yield Unsupported(BACKEND, device.archs[0] if device.archs else "", None, (no_kernels(device),))


def families_for(problem: Problem) -> tuple[Family, ...]:
    """Families whose kernels are candidates for the direction."""
    return {Direction.FWD: FORWARD, Direction.BWD: BACKWARD}.get(problem.direction, MAIN)


@dataclass(frozen=True)
class _Verdict:
    """What holds for all kernels of a class: reasons, or the place in upstream's order."""

    reasons: tuple[Reason, ...]
    late: str | None


def _decided(s: Situation, index: FamilyIndex, api: Api) -> Iterator[Decision]:
    signatures = _signature_reasons(s, index)
    verdicts = _verdicts(s, index, api)
    place = api.families.index(index.family) if index.family in api.families else len(api.families)
    p = s.problem
    for case in sorted(index.cases, key=lambda case: case.distance(p.dtype, p.dtype_out, p.hdim, p.hdim_v)):
        for candidate in case.candidates:
            verdict = verdicts[candidate.kernel_class]
            reasons = signatures[candidate.signature_group] + verdict.reasons
            if reasons:
                kernel = candidate.kernel
                yield Unsupported(BACKEND, kernel.arch, kernel, reasons)
            else:
                yield _supported(candidate, verdict.late, place, api)


def _supported(candidate: Candidate, late: str | None, place: int, api: Api) -> Supported:
    rank = (1 if late else 0, place, candidate.bucket, candidate.position)
    if late is None:
        return Supported(candidate.kernel, rank, f"upstream's order; {api.why}")
    return Supported(candidate.kernel, rank, f"not what upstream takes: {late}")


def _signature_reasons(s: Situation, index: FamilyIndex) -> list[tuple[Reason, ...]]:
    """The reasons of the signature rules for each signature group; each (field, value) is judged once."""
    judged: dict[tuple[str, object, object], Reason | None] = {}
    rules = dict(zip(index.keys, _rules_by_field(index.keys), strict=True))
    out = []
    for group, values in enumerate(index.signatures):
        reasons = []
        for field, value in zip(index.keys, values, strict=True):
            key = (field, value, values[0] if field == "dtype_out" else None)  # K002 also looks at the input type
            if key not in judged:
                judged[key] = rules[field].check(s.problem, index.signed[group], s.device)
            reason = judged[key]
            if reason is not None:
                reasons.append(reason)
        out.append(tuple(reasons))
    return out


def _rules_by_field(keys: Sequence[str]) -> list[Rule]:
    by_id = {rule.id: rule for rule in SIGNATURE_RULES}
    return [by_id[SIGNATURE_RULE_IDS[key]] for key in keys]


def _verdicts(s: Situation, index: FamilyIndex, api: Api) -> list[_Verdict]:
    conditions = conditions_for(index.family, CONDITIONS)
    entered = _entered_buckets(s, index)
    out = []
    for number, kernel in enumerate(index.classes):
        reasons = list(index.refusals[number])
        reasons += reasons_against(UNSIGNED_RULES, s.problem, kernel, s.device)
        against = (condition.check(s, kernel) for condition in conditions)
        reasons += [reason for reason in against if reason is not None]
        late = None
        if not reasons:
            late = _late(s, index.family, api, index.buckets[number] == entered)
            late = late or passed_over(s, kernel, index.largest_rows[number])
        out.append(_Verdict(tuple(reasons), late))
    return out


def _entered_buckets(s: Situation, index: FamilyIndex) -> int | None:
    """The head-dim case of the problem's dtype that upstream enters."""
    p = s.problem
    fitting = (
        bucket
        for kernel, bucket in zip(index.classes, index.buckets, strict=True)
        if (kernel.signature.dtype, kernel.signature.dtype_out) == (p.dtype, p.dtype_out)
        and p.hdim <= kernel.signature.hdim
        and p.hdim_v <= kernel.signature.hdim_v
    )
    return min(fitting, default=None)


def _late(s: Situation, family: Family, api: Api, entered: bool) -> str | None:
    if family not in api.families:
        return f"K354: {api.why}"
    if not entered:
        return "K353: another head-dim case comes first"
    return None
