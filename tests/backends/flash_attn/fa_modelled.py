"""The FlashAttention backend on a simulated device whose kernels are the numpy model. Tests name it as an entry point.

The worker loads the stand-in driver like a real one, by its name through the loader's search path.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from cuda_standin.recording import Launch, Recording
from fa_memory import BadAddress, Bytes, HostMemory
from fa_model import run_kernel

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.driver import LIBRARY
from fmha_cli.backends.cuda.launch import INT_BYTES
from fmha_cli.backends.cuda.session import CudaSession
from fmha_cli.backends.flash_attn.launches import launch_of
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.protocols import Session

ILLEGAL_ADDRESS = 700


class PlayedMemory(HostMemory):
    """The memory of the simulated device; all other addresses are illegal."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def bytes_at(self, address: int, size: int) -> Bytes:
        if not self._recording.holds(address, size):
            raise BadAddress(f"{size} bytes at {address:#x}")
        return super().bytes_at(address, size)


class ModelledSession(CudaSession):
    """Identifies kernels by launch order: each launch of a plan runs all stages in order."""

    def __init__(self, device: DeviceFacts) -> None:
        self._recording = Recording(Path(LIBRARY))
        super().__init__(UPSTREAM, device)

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        super().load(plan, artifacts)
        self._turn = 0
        self._recording.model(self._run)

    def _run(self, launch: Launch) -> int | None:
        assert self._call is not None
        stages = [s for s in self._call.plan.stages if not launch_of(s, self._call).empty]
        stage = stages[self._turn % len(stages)]
        self._turn += 1
        wanted = launch_of(stage, self._call)
        assert (launch.grid, launch.block, launch.shared) == (wanted.grid, wanted.block, wanted.shared)
        tail = INT_BYTES * len(wanted.extra)
        block = launch.parameters[: len(launch.parameters) - tail]
        extra = [
            int.from_bytes(launch.parameters[at : at + INT_BYTES], "little")
            for at in range(len(block), len(launch.parameters), INT_BYTES)
        ]
        try:
            run_kernel(stage.kernel, block, launch.grid, PlayedMemory(self._recording), extra)
        except BadAddress:
            traceback.print_exc()
            return ILLEGAL_ADDRESS
        except Exception:
            traceback.print_exc()
            raise
        return None


class ModelledBackend(CubinBackend):
    def open(self, device: DeviceFacts) -> Session:
        return ModelledSession(device)


class WildBackend(CubinBackend):
    """A backend whose kernels write past all allocations."""

    def open(self, device: DeviceFacts) -> Session:
        return WildSession(device)


class WildSession(ModelledSession):
    def _run(self, launch: Launch) -> int | None:
        try:
            PlayedMemory(self._recording).bytes_at(8, 8)[...] = 0
        except BadAddress:
            return ILLEGAL_ADDRESS
        return None


modelled, wild = ModelledBackend(UPSTREAM, driven=True), WildBackend(UPSTREAM, driven=True)
