"""Which tensors a launch needs as zeros.

Source: ``example/ck_tile/01_fmha/fmha_bwd_runner.hpp`` (``dq_acc_buf.SetZero``, ``dbias_buf.SetZero``) and the early
returns of ``ck_tile/ops/fmha/kernel/fmha_bwd_kernel.hpp`` ``FmhaBwdDQDKDVKernel``.
"""

from __future__ import annotations

from fmha_cli.features import Mode
from fmha_cli.kernel import Family
from fmha_cli.mask import MaskKind
from fmha_cli.plan import Plan
from fmha_cli.signature import Need


def zeroed(plan: Plan) -> tuple[str, ...]:
    """Names of tensors and workspaces; those that a plan does not have are no matter.

    - ``dq_acc``: blocks add to it atomically, or (deterministic, masked) leave the parts of hidden tiles alone.
    - ``dbias``: tiles that a mask hides are not written.
    - dK and dV, when a packed sequence has no queries or no keys: its blocks return at once.
    """
    if all(stage.family is not Family.BWD_DQ_DK_DV for stage in plan.stages):
        return ()
    p = plan.problem
    masked, group = p.mask.kind is not MaskKind.NONE, p.mode is Mode.GROUP
    out = []
    if plan.main.signature.deterministic is not Need.YES or masked or group:
        out.append("dq_acc")
    if masked or group:
        out.append("dbias")
    if group and 0 in (*p.query_lengths(), *p.key_lengths()):
        out += ["dq", "dk", "dv", "dk_heads", "dv_heads"]
    return tuple(out)
