"""A backend on a simulated device whose kernels are a model. Tests name it as an entry point of the worker.

The worker loads the stand-in driver like a real one, by its name through the loader's search path.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from fmha_nvptx_emu.recording import Launch, Recording

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.driver import LIBRARY
from fmha_cli.backends.cuda.launch import INT_BYTES
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.cuda.upstream_session import CubinSession
from fmha_cli.codegen.struct import Layout, host_layout
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.protocols import Session
from tests.support.models.kernel_memory import BadAddress, Bytes, HostMemory
from tests.support.models.modelled_run import Model

ILLEGAL_ADDRESS = 700


class PlayedMemory(HostMemory):
    """The memory of the simulated device; all other addresses are illegal."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def bytes_at(self, address: int, size: int) -> Bytes:
        if not self._recording.holds(address, size):
            raise BadAddress(f"{size} bytes at {address:#x}")
        return super().bytes_at(address, size)


class ModelledSession(CubinSession):
    """Identifies kernels by launch order: each launch of a plan runs all stages in order."""

    def __init__(self, upstream: CubinUpstream, model: Model, device: DeviceFacts) -> None:
        self.recording, self._model = Recording(Path(LIBRARY)), model
        super().__init__(upstream, device)

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        super().load(plan, artifacts)
        self._turn = 0
        self.recording.model(self.run)

    def run(self, launch: Launch) -> int | None:
        """Do a kernel's work."""
        upstream = self._upstream
        stages = [
            (stage, call)
            for call in self._calls
            for stage in call.plan.stages
            if upstream.launches(call.situation) and not upstream.launch_of(stage, call).empty
        ]
        stage, call = stages[self._turn % len(stages)]
        loaded = self._kernels[stage]
        self._turn += 1
        wanted = upstream.launch_of(stage, call)
        assert (launch.grid, launch.block, launch.shared) == (wanted.grid, wanted.block, wanted.shared)
        block, extra = launch.parameters, []
        if loaded.separate is not None:
            block = together(block, upstream.expect_exports(stage.kernel).block, loaded.separate)
        elif tail := INT_BYTES * len(wanted.extra):
            block, rest = block[:-tail], block[-tail:]
            extra = [int.from_bytes(rest[at : at + INT_BYTES], "little") for at in range(0, tail, INT_BYTES)]
        try:
            self._model(stage.kernel, block, launch.grid, PlayedMemory(self.recording), extra)
        except BadAddress:
            traceback.print_exc()
            return ILLEGAL_ADDRESS
        except Exception:
            traceback.print_exc()
            raise
        return None


def together(arguments: bytes, form: type, places: Layout) -> bytes:
    """Parameters at the places that a cubin states, as the block whose fields they are."""
    out = bytearray(max(offset + size for _, offset, size in host_layout(form)))
    for (_, offset, size), (_, at, width) in zip(host_layout(form), places, strict=True):
        assert size == width
        out[offset : offset + size] = arguments[at : at + width]
    return bytes(out)


class ModelledBackend(CubinBackend):
    """The backend of an upstream, with a model of its kernels."""

    def __init__(self, upstream: CubinUpstream, model: Model) -> None:
        super().__init__(upstream, driven=True)
        self._model = model

    def open(self, device: DeviceFacts) -> Session:
        return ModelledSession(self.upstream, self._model, device)
