"""The host's changes in the arena before the upload and after the download, outside the timed launches."""

from __future__ import annotations

from math import inf

from fmha_cli.backends.cuda.copies import lse_in, lse_out, row_sums_in
from fmha_cli.backends.gpu.arena_views import Bytes
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation


def before_upload(call: Call[MemEfficientSituation], arena: Bytes) -> None:
    """Fill the workspaces that the kernel reads.

    A backward kernel reads +inf as the LSE of padding, as upstream's forward kernel pads it, and of rows without keys:
    exp(-inf - -inf) would be NaN. After a forward pass of the same plan it reads that pass's results (``pairs``).
    """
    m = storage_of(call.problem, call.plan.main)
    m.copy_in(call, arena)
    if not m.traits.forward and not call.follows:
        lse_in(call, arena, "logsumexp", m.scratch["logsumexp"].shape, inf)
        if not m.traits.facts["kKernelComputesDelta"]:
            row_sums_in(call, arena, "delta", m.scratch["delta"].shape)


def after_download(call: Call[MemEfficientSituation], arena: Bytes) -> None:
    """Turn the kernel's results in the arena into the contract's outputs."""
    m = storage_of(call.problem, call.plan.main)
    m.copy_out(call, arena)
    if m.traits.forward and call.problem.lse:
        lse_out(call, arena, "logsumexp", m.scratch["logsumexp"].shape)
