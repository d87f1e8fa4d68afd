"""Which workspaces a launch needs as zeros."""

from __future__ import annotations

from fmha_cli.kernel import Family
from fmha_cli.plan import Plan


def zeroed(plan: Plan) -> tuple[str, ...]:
    """Names of the workspaces.

    ``dq_accum`` of a deterministic pass: its blocks add to their own part, and bwd_dot_do_o clears none
    (``torch::zeros`` in ``mha_bwd``). Otherwise bwd_dot_do_o clears what is added to.
    """
    backward = any(stage.family is Family.BWD_DQ_DK_DV for stage in plan.stages)
    return ("dq_accum",) if backward and plan.problem.deterministic else ()
