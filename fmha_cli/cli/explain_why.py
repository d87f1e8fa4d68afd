"""``fmha explain --why A B``."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.cli.call import CliCall
from fmha_cli.discovery.select import Selection, archs_in_play, decision_about
from fmha_cli.discovery.wanted import Wanted, wanted_backends
from fmha_cli.discovery.why import compared, differences, placed, rule_ids
from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.report.documents.explain import (
    ComparedKernel,
    DecidingRule,
    FieldRow,
    WhyPage,
)


def why_page(
    call: CliCall, problem: Problem, selection: Selection, found: Mapping[str, Availability], wanted: Wanted
) -> WhyPage:
    """What differs between the two kernels of ``--why``, and which rules came between them.

    Raises:
        UsageError: an unknown or ambiguous kernel, or the same one twice.
    """
    registry, names = call.registry, call.settings.many("why")
    archs = archs_in_play(wanted_backends(registry, wanted), found, wanted)
    a, b = (decision_about(name, problem, selection, registry, archs) for name in names)
    if a.kernel is None or b.kernel is None or a.kernel == b.kernel:
        raise UsageError(f"--why {' '.join(names)}: that is one kernel", code="E002", where="--why")

    def side(decision: Decision) -> ComparedKernel:
        kernel = decision.kernel
        assert kernel is not None  # a kernel was named
        rank = placed(selection.choices, decision)
        return taken_from(
            kernel,
            ComparedKernel,
            upstream_name=registry.backend(kernel.backend).upstream_name(kernel),
            supported=rank is not None,
            rank=rank,
            note=getattr(decision, "note", "") or None,
            reasons=getattr(decision, "reasons", ()),
        )

    rules = registry.rules()
    return WhyPage(
        problem=problem.to_dict(),
        a=side(a),
        b=side(b),
        differences=tuple(taken_from(row, FieldRow) for row in differences(a.kernel, b.kernel)),
        rules=tuple(
            DecidingRule(id=id, text=rules[id].text, kernel="a" if decision is a else "b")
            for decision in (a, b)
            for id in rule_ids(decision)
            if id in rules
        ),
        because=compared(selection, a, b),
    )
