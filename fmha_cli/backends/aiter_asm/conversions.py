"""The small arrays that the kernels read besides the tensors, and the copy of LSE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fmha_cli.backends.aiter_asm.launching import COPY, copies_lse
from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.auxiliary import int32
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.host_side import workspace
from fmha_cli.backends.gpu.index import SmallSituation
from fmha_cli.domain.features import Mode
from fmha_cli.domain.tensors import offsets


def auxiliaries_of(situation: SmallSituation) -> Mapping[str, Array]:
    """Where packed sequences start."""

    p = situation.problem
    if p.mode is not Mode.GROUP:
        return {}
    return {"seqstart_q": int32(offsets(p.query_lengths())), "seqstart_k": int32(offsets(p.key_lengths()))}


def after_download(call: Call[Any], arena: Bytes) -> None:
    """Copy LSE to its place, where the kernel wrote a copy."""
    if copies_lse(call.problem):
        lse = view(arena, call.tensor("lse"))
        lse[...] = workspace(call.tensors, arena, COPY, lse.shape, np.dtype(np.float32))
