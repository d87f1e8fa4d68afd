"""The session on an AMD device: one device arena mirrors the host's, and kernels are launched between events.

Each stage is timed from one event to the next, on one stream. Uploads and conversions of results are not timed. Neither
are the zeroing and copies that a launch needs first: ``dq_acc`` before an accumulating backward, ``dbias``, and the
copy of Q that the append kernel rotates in place. Upstream's example does not time them either: it zeroes ``dq_acc``
once, before its timed loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli.backends.ck_tile.arguments import block_of
from fmha_cli.backends.ck_tile.auxiliary import auxiliaries_of
from fmha_cli.backends.ck_tile.conversions import Patch, blank_extent, finish, is_dense, patches_for
from fmha_cli.backends.ck_tile.library import CkLibrary
from fmha_cli.backends.ck_tile.quantisation import Scales, scales_of
from fmha_cli.backends.ck_tile.shapes import holdable
from fmha_cli.backends.ck_tile.workspaces import list_zeroed
from fmha_cli.backends.gpu.arena_views import Array, Bytes, extent, view
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.mirror import Mirror
from fmha_cli.backends.hip.session import HipSession
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import QScale
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem

_DESCALES = ("q_descale", "k_descale", "v_descale")


class CkSession(HipSession[Scales]):
    """Runs one plan at a time. A call uses the scales of the last upload, which may read them from tensors."""

    _libraries: Mapping[Stage, CkLibrary]
    _launches: dict[Stage, Callable[[Any], None]]
    _patches: dict[Problem, tuple[Patch, ...]]
    _blanks: dict[str, int]
    _scales: dict[Problem, Scales]

    def _load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        pairs = zip(plan.stages, artifacts, strict=True)
        self._libraries = {s: CkLibrary(s.kernel, path, self._hip.error_text) for s, path in pairs}
        super()._load(plan, artifacts)

    def _situation(self, plan: Plan) -> Scales:
        return scales_of(plan.problem, plan.main, {})

    def _auxiliaries(self, plan: Plan, situation: Scales) -> Mapping[str, Array]:
        return auxiliaries_of(plan, None)

    def _prepare(self, call: Call[Scales]) -> None:
        _, mirror = self._bound()
        gapped = (name for name in list_zeroed(call.plan) if name in call.tensors and not is_dense(call.tensors[name]))
        self._blanks |= {name: mirror.allocate(extent(call.tensors[name])) for name in gapped}

    def _before_upload(self, call: Call[Scales], host: Bytes) -> None:
        # A following pass has the inputs of the pass before, and its results on the device.
        self._patches[call.problem] = () if call.follows else patches_for(call.plan, call.tensors, host)

    def _after_upload(self, call: Call[Scales], mirror: Mirror) -> None:
        for patch in self._patches[call.problem]:
            mirror.write(mirror.base + patch.offset, patch.patched)
        for name, array in auxiliaries_of(call.plan, lambda name: view(mirror.host, call.tensors[name])).items():
            mirror.write(call.auxiliaries[name], array)
        for name in self._blanks.keys() & list_zeroed(call.plan):
            mirror.write(self._blanks[name], blank_extent(mirror.host, call.tensors[name]))
        scales = self._scales[call.problem] = scales_of(call.problem, call.plan.main, _descales(call, mirror.host))
        held = replace(call, situation=scales, tensors=holdable(call.tensors))
        for stage in call.plan.stages:
            library = self._libraries[stage]
            self._launches[stage] = partial(library.launch, library.pack(block_of(stage, held)))

    def _after_download(self, call: Call[Scales], host: Bytes) -> None:
        if call.problem not in self._scales:
            raise InternalError("download before upload")
        for patch in self._patches[call.problem]:
            patch.undo(host)
        finish(call.plan, call.tensors, host, self._scales[call.problem])

    def _stages(self) -> Sequence[Callable[[Any], None]]:
        return tuple(self._launches.values())

    def _before_launch(self) -> Callable[[Any], None]:
        return self._restore

    def _restore(self, stream: Any) -> None:
        """Queue zeros where kernels expect them, and the copy of Q that the append kernel rotates."""
        for call in self._calls:
            for name in (name for name in list_zeroed(call.plan) if name in call.tensors):
                start, size = call.address(name), extent(call.tensors[name])
                if name in self._blanks:
                    self._hip.copy_within(start, self._blanks[name], size, stream)
                elif size:
                    self._hip.fill(start, 0, size, stream)
            if "q_rotated" in call.tensors:
                size = extent(call.tensors["q"])
                self._hip.copy_within(call.address("q_rotated"), call.address("q"), size, stream)

    def _unload(self) -> None:
        super()._unload()
        self._libraries, self._launches, self._patches, self._blanks, self._scales = {}, {}, {}, {}, {}


def _descales(call: Call[Scales], host: Bytes) -> dict[str, float]:
    """The descales of ``--qscale tensor``, one number per tensor."""
    if call.problem.qscale is not QScale.TENSOR:
        return {}
    return {name: float(np.float32(view(host, call.tensor(name)).reshape(-1)[0])) for name in _DESCALES}
