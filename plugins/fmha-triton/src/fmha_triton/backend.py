"""The backend. Each method imports what it needs: choosing a kernel needs no compiler, and only running needs a driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path

from fmha_cli import api, plugin
from fmha_triton.algorithm import TritonAlgorithm, archs, target_of
from fmha_triton.catalogue import NAME, kernels_of

_DRIVERS = tuple(Path(name) for name in ("/dev/kfd", "/dev/nvidiactl", "/dev/dxg"))
"""Device files of the two vendors' drivers. Without one there is nothing to open, and no worker is needed to say so."""


class TritonBackend:
    """See ``fmha_cli.domain.protocols`` (Backend, Batched, Keyed) for the contract of the methods."""

    name = NAME
    algorithm: type[plugin.Algorithm] = TritonAlgorithm
    dropout_stream = "fmha"
    automatic = False
    runtimes = ("cuda", "hip")

    def __init__(self, driven: bool | None = None) -> None:
        self._driven = any(path.exists() for path in _DRIVERS) if driven is None else driven
        self.probes_in_parent = not self._driven

    def probe(self) -> plugin.Availability:
        if not self._driven:
            why = "no driver of an NVIDIA or AMD GPU is loaded here"
            help = (
                "--arch A builds for an architecture without one; --device emu:gfx942 or emu:sm_80 executes without one"
            )
            return plugin.Availability(state=plugin.State.NO_DEVICE, why=why, help=help)
        found = (plugin.probe_cuda(), plugin.probe_hip())
        devices = tuple(device for one in found for device in one.devices if set(device.archs) & set(archs()))
        if devices:
            return plugin.Availability(state=plugin.State.OK, devices=devices)
        why = "; ".join(one.why or "no device of an architecture that these kernels have" for one in found)
        return plugin.Availability(state=plugin.State.NO_DEVICE, why=why)

    def archs(self) -> tuple[str, ...]:
        return archs()

    def kernels(self, arch: plugin.ArchSpec) -> Iterable[api.KernelSpec]:
        return kernels_of(arch.name)

    def rules(self) -> tuple[plugin.Rule, ...]:
        from fmha_triton.rules import ALL_RULES

        return ALL_RULES

    def checkers(self) -> Sequence[object]:
        """For ``fmha doctor``: whether the installed Triton is one of the tried ones, or between them."""
        from fmha_triton.rules import RELEASES

        return (partial(plugin.check_release, "triton", tuple(RELEASES["tried"])),)

    @property
    def errors(self) -> dict[str, tuple[str, str]]:
        pages = json.loads(resources.files("fmha_triton").joinpath("errors.json").read_text("utf-8"))
        return {code: (text, help) for code, (text, help) in pages.items()}

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterable[api.Decision]:
        return _passes().decide(problem, device)

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Plan:
        return _passes().plan(problem, kernel, device)

    prepare = plugin.own(".building")
    compile_bytes = plugin.own(".building")
    build = plugin.own(".building")
    cache_key = plugin.own(".building")
    inspect = plugin.own(".building")

    def upstream_name(self, kernel: api.KernelSpec) -> str | None:
        return None

    def open(self, device: plugin.DeviceFacts) -> plugin.Session:
        from fmha_triton.sessions import TritonCudaSession, TritonHipSession

        kinds = {target_of(arch).kind for arch in device.archs if arch in archs()}
        return TritonHipSession(device) if "hip" in kinds else TritonCudaSession(device)


def _passes() -> plugin.TwoPasses:
    from fmha_triton.deciding import decide
    from fmha_triton.plan import plan_of

    return plugin.TwoPasses(decide, plan_of)
