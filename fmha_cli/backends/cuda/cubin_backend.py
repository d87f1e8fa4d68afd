"""``CubinBackend``: the backend for the kernels of a ``CubinUpstream``. NVRTC compiles each kernel when it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.gpu.upstream_backend import UpstreamBackend
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.own import own
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.protocols import BoundTensor, BuildContext, LaunchView, Session

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.shop import Workshop
    from fmha_cli.domain.installation import Checker, DoctorCheck, SourceTree, Surroundings

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files of the driver: Linux's own, and Windows' under WSL. Looking for them costs almost nothing, so a machine
without a driver need not start a worker and import cuda-python to find out."""


def may_be_driven(drivers: Sequence[Path] = DRIVERS, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether it is worth asking the driver: a device file exists, or a libcuda is on the loader's search path."""
    folders = (entry for entry in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry)
    return any(path.exists() for path in drivers) or any(Path(entry, "libcuda.so.1").exists() for entry in folders)


class CubinBackend(UpstreamBackend[CubinUpstream]):
    """See ``fmha_cli.domain.protocols`` (Backend, Profiled, Batched, Estimated, DryRun, Keyed) and ``domain.installation`` (Doctored,
    Sourced) for the contract of the methods.

    Args:
        upstream: the project whose kernels the backend offers.
        driven: whether the machine may have an NVIDIA driver; by default :func:`may_be_driven` decides.
    """

    vendor, runtimes, node = "NVIDIA", ("cuda",), DRIVERS[0]

    _ask_driver = own(".driver", "probe_cuda")
    _workshop = own(".shop", "workshop")
    _build = own(".shop", "build")
    _key_of = own(".shop", "key_of")
    _inspect = own(".inspect", "inspect")
    _session = own(".upstream_session", "CubinSession")
    _check_compilers = own("fmha_cli.toolchain.cuda.toolchain", "check_compilers")
    _check = own(".homes", "check_tree")
    _own_files = own(".homes", "own_files")
    _source_tree = own(".homes", "source_tree")
    _describe = own(".dry_run", "describe_launches")

    def __init__(self, upstream: CubinUpstream, driven: bool | None = None) -> None:
        super().__init__(upstream, may_be_driven() if driven is None else driven)

    def profile_kernels(self, arch: ArchSpec, profile: str) -> Iterable[KernelSpec]:
        return self.upstream.profile_kernels(arch, profile)

    def prepare(self, context: BuildContext) -> Workshop:
        shop: Workshop = self._workshop(self.upstream, context)
        return shop

    def compile_bytes(self, kernel: KernelSpec) -> int:
        return self.upstream.compile_bytes[kernel.family]

    def compile_seconds(self, stage: Stage, context: BuildContext) -> tuple[float, float] | None:
        seconds = self.upstream.compile_seconds(stage.kernel.family)
        slow = seconds is not None and self.prepare(context).must_compile(self.upstream, stage.kernel, context)
        return seconds if slow else None

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        artifact: Artifact = self._build(self.upstream, stage.kernel, context)
        return artifact

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        return self._key_of(self.upstream, stage.kernel, context)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        figures: dict[str, object] = self._inspect(self.upstream, kernel, artifact)
        return figures

    def open(self, device: DeviceFacts) -> Session:
        session: Session = self._session(self.upstream, device)
        return session

    def checkers(self) -> Sequence[Checker]:
        return self._check_compilers, self._check_tree

    def _check_tree(self, surroundings: Surroundings) -> Iterable[DoctorCheck]:
        checks: Iterable[DoctorCheck] = self._check(self.upstream, surroundings)
        return checks

    def home_files(self, home: str) -> Mapping[str, Path]:
        files: Mapping[str, Path] = self._own_files(self.upstream, home)
        return files

    def source_tree(self, surroundings: Surroundings) -> SourceTree:
        tree: SourceTree = self._source_tree(self.upstream, surroundings)
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
