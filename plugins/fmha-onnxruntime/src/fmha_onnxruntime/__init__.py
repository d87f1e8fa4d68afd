"""ONNX Runtime's attention operators on the CPU, as a backend for fmha.

A kernel is an operator, the element type of its tensors and the precision in which it keeps the scores. The library is imported in the
worker alone; ``rules`` says what it can do, and the plugin's tests compare that with its own answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from fmha_cli import api
from fmha_onnxruntime.kernels import OrtAlgorithm, kernels_for
from fmha_onnxruntime.rules import RULES

INSTALL = "pip install onnxruntime"


class OrtBackend:
    """The five answers of a backend."""

    name = "onnxruntime"
    algorithm: type[api.Algorithm] = OrtAlgorithm
    dropout_stream = "fmha"
    probes_in_parent = True
    automatic = False

    def probe(self) -> api.Availability:
        """Whether the library is installed; it is not imported."""
        try:
            found = version("onnxruntime")
        except PackageNotFoundError:
            return api.Availability(state=api.State.MISSING, why="onnxruntime is not installed", help=INSTALL)
        device = api.DeviceFacts(id="cpu", archs=self.archs())
        return api.Availability(state=api.State.OK, devices=(device,), version=found)

    def archs(self) -> tuple[str, ...]:
        return ("generic",)

    def kernels(self, arch: api.ArchSpec) -> Iterator[api.KernelSpec]:
        yield from kernels_for(self.name, arch.name)

    def rules(self) -> tuple[api.Rule, ...]:
        return RULES

    def decide(self, problem: api.Problem, device: api.DeviceFacts) -> Iterator[api.Decision]:
        for rank, kernel in enumerate(self.kernels(api.load_arch("generic"))):
            reasons = tuple(api.reasons_against(RULES, problem, kernel, device))
            yield api.Unsupported(self.name, kernel.arch, kernel, reasons) if reasons else api.Supported(kernel, (rank,))

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Plan:
        return api.Plan(problem, (api.Stage(kernel),))

    def build(self, stage: api.Stage, context: api.BuildContext) -> api.Artifact:
        return api.no_build(stage, context)

    def cache_key(self, stage: api.Stage, context: api.BuildContext) -> object:
        return api.no_build_key(stage)

    def inspect(self, kernel: api.KernelSpec, artifact: api.Artifact) -> dict[str, object]:
        return {}

    def upstream_name(self, kernel: api.KernelSpec) -> str | None:
        return None

    def open(self, device: api.DeviceFacts) -> api.Session:
        from fmha_onnxruntime.session import OrtSession

        return OrtSession()


@api.hookimpl
def fmha_register_backends() -> list[api.Backend]:
    return [OrtBackend()]
