"""``CodeObjectBackend``: the backend for the kernels of a ``CodeObjectUpstream``. Nothing is compiled: a build copies a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.backends.gpu.upstream_backend import UpstreamBackend
from fmha_cli.backends.hip.upstream import CodeObjectUpstream
from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.protocols import BoundTensor, BuildContext, LaunchView, Session

if TYPE_CHECKING:
    from fmha_cli.domain.installation import Checker, SourceTree, Surroundings

DRIVERS = (Path("/dev/kfd"), Path("/dev/dxg"))
"""Device nodes of the AMD GPU drivers: Linux's amdgpu, and Windows' driver under WSL. The check costs nothing, so a
machine without a driver starts neither a worker nor a runtime to find that out."""


class CodeObjectBackend(UpstreamBackend[CodeObjectUpstream]):
    """See ``fmha_cli.domain.protocols`` (Backend, DryRun, Keyed) and ``domain.installation`` (Doctored, Sourced) for the contract of the
    methods.
    """

    vendor, runtimes, node = "AMD", ("hip",), DRIVERS[0]

    def __init__(self, upstream: CodeObjectUpstream, driven: bool | None = None) -> None:
        super().__init__(upstream, any(path.exists() for path in DRIVERS) if driven is None else driven)

    def _ask_driver(self) -> Availability:
        from fmha_cli.backends.hip.runtime import probe_hip

        return probe_hip()

    def compile_bytes(self, kernel: KernelSpec) -> int:
        return 0

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.backends.hip.code_objects import build

        return build(self.upstream, stage.kernel, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        from fmha_cli.backends.hip.code_objects import key_of

        return key_of(self.upstream, stage.kernel)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        from fmha_cli.backends.hip.inspection import code_object_figures

        return code_object_figures(artifact.path.read_bytes(), kernel.arch)

    def open(self, device: DeviceFacts) -> Session:
        from fmha_cli.backends.hip.upstream_session import CodeObjectSession

        return CodeObjectSession(self.upstream, device)

    def checkers(self) -> Sequence[Checker]:
        from fmha_cli.backends.hip.library import check_bindings

        return (check_bindings,)

    def source_tree(self, surroundings: Surroundings) -> SourceTree:
        from fmha_cli.sources.store import pinned_tree

        return pinned_tree(self.upstream.source, surroundings)

    def build_recorder(self, context: BuildContext) -> Artifact | None:
        return None  # the host code is Python, so its launches are known without a driver

    def describe_launches(
        self,
        plan: Plan,
        artifacts: Sequence[Path],
        tensors: Mapping[str, BoundTensor],
        device: DeviceFacts,
        recorder: Path | None,
    ) -> tuple[LaunchView, ...]:
        from fmha_cli.backends.hip.code_objects import describe_launches

        return describe_launches(self.upstream, plan, artifacts, tensors, device)
