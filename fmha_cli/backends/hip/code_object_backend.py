"""``CodeObjectBackend``: the backend for the kernels of a ``CodeObjectUpstream``. Nothing is compiled: a build copies a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.backends.gpu.upstream_backend import UpstreamBackend
from fmha_cli.backends.hip.upstream import CodeObjectUpstream
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.own import own
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

    _ask_driver = own(".runtime", "probe_hip")
    _build = own(".code_objects", "build")
    _key_of = own(".code_objects", "key_of")
    _figures = own(".inspection", "code_object_figures")
    _session = own(".upstream_session", "CodeObjectSession")
    _check_bindings = own(".library", "check_bindings")
    _pinned_tree = own("fmha_cli.sources.store", "pinned_tree")
    _describe = own(".code_objects", "describe_launches")

    def __init__(self, upstream: CodeObjectUpstream, driven: bool | None = None) -> None:
        super().__init__(upstream, any(path.exists() for path in DRIVERS) if driven is None else driven)

    def compile_bytes(self, kernel: KernelSpec) -> int:
        return 0

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        artifact: Artifact = self._build(self.upstream, stage.kernel, context)
        return artifact

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        return self._key_of(self.upstream, stage.kernel)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        figures: dict[str, object] = self._figures(artifact.path.read_bytes(), kernel.arch)
        return figures

    def open(self, device: DeviceFacts) -> Session:
        session: Session = self._session(self.upstream, device)
        return session

    def checkers(self) -> Sequence[Checker]:
        return (self._check_bindings,)

    def source_tree(self, surroundings: Surroundings) -> SourceTree:
        tree: SourceTree = self._pinned_tree(self.upstream.source, surroundings)
        return tree

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
        views: tuple[LaunchView, ...] = self._describe(self.upstream, plan, artifacts, tensors, device)
        return views
