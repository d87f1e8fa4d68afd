"""``CubinBackend``: the backend for the kernels of an ``Upstream``. NVRTC compiles each kernel when it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.backends.gpu.devices import report_undriven
from fmha_cli.domain.arch import ArchSpec, arch_names, load_arch
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor, BuildContext, LaunchView, Session
from fmha_cli.domain.rules import Reason, Rule

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.shop import Workshop
    from fmha_cli.domain.installation import Checker, DoctorCheck, SourceTree, Surroundings

# Each method imports what it needs. Listing kernels needs no rules about problems, choosing a kernel needs no compiler,
# and only running needs cuda-python.

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files of the driver: Linux's own, and Windows' under WSL. Looking for them costs almost nothing, so a machine
without a driver need not start a worker and import cuda-python to find out."""


def may_be_driven(drivers: Sequence[Path] = DRIVERS, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether it is worth asking the driver: a device file exists, or a libcuda is on the loader's search path."""
    folders = (entry for entry in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if entry)
    return any(path.exists() for path in drivers) or any(Path(entry, "libcuda.so.1").exists() for entry in folders)


class CubinBackend:
    """See ``fmha_cli.domain.protocols`` (Backend, Profiled, Batched, Estimated, DryRun, Keyed), ``domain.installation`` (Doctored,
    Sourced) and ``domain.invariance`` (Promising) for the contract of the methods.

    Args:
        upstream: the project whose kernels the backend offers.
        driven: whether the machine may have an NVIDIA driver; by default :func:`may_be_driven` decides.
    """

    automatic = True
    runtimes = ("cuda",)

    def __init__(self, upstream: Upstream, driven: bool | None = None) -> None:
        self.upstream = upstream
        self.name, self.algorithm = upstream.name, upstream.algorithm
        self.dropout_stream = upstream.dropout_stream
        self.home_option = upstream.home_option
        self._driven = may_be_driven() if driven is None else driven
        self.probes_in_parent = not self._driven  # without a driver there is nothing to open

    def probe(self) -> Availability:
        if not self._driven:
            return report_undriven("NVIDIA", DRIVERS[0])
        from fmha_cli.backends.cuda.driver import probe_cuda

        return probe_cuda()

    def archs(self) -> tuple[str, ...]:
        return tuple(name for name in arch_names() if self.name in load_arch(name).backends)

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return self.upstream.kernels(arch)

    def profile_kernels(self, arch: ArchSpec, profile: str) -> Iterable[KernelSpec]:
        return self.upstream.profile_kernels(arch, profile)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        return self.upstream.refusals(kernel)

    def rules(self) -> tuple[Rule, ...]:
        return self.upstream.rules()

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self.upstream.passes().decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return self.upstream.passes().plan(problem, kernel, device)

    def promises(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance] | None:
        return self.upstream.promises(problem, kernel, device)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return self.upstream.upstream_name(kernel)

    def prepare(self, context: BuildContext) -> Workshop:
        from fmha_cli.backends.cuda.shop import workshop

        return workshop(self.upstream, context)

    def compile_bytes(self, kernel: KernelSpec) -> int:
        return self.upstream.compile_bytes[kernel.family]

    def compile_seconds(self, stage: Stage, context: BuildContext) -> tuple[float, float] | None:
        seconds = self.upstream.compile_seconds(stage.kernel.family)
        slow = seconds is not None and self.prepare(context).must_compile(self.upstream, stage.kernel, context)
        return seconds if slow else None

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.backends.cuda.shop import build

        return build(self.upstream, stage.kernel, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        from fmha_cli.backends.cuda.shop import key_of

        return key_of(self.upstream, stage.kernel, context)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        from fmha_cli.backends.cuda.inspect import inspect

        return inspect(self.upstream, kernel, artifact)

    def open(self, device: DeviceFacts) -> Session:
        from fmha_cli.backends.cuda.upstream_session import UpstreamSession

        return UpstreamSession(self.upstream, device)

    def checkers(self) -> Sequence[Checker]:
        from fmha_cli.toolchain.cuda.toolchain import check_compilers

        return check_compilers, self._check_tree

    def _check_tree(self, surroundings: Surroundings) -> Iterable[DoctorCheck]:
        from fmha_cli.backends.cuda.homes import check_tree

        return check_tree(self.upstream, surroundings)

    def home_files(self, home: str) -> Mapping[str, Path]:
        from fmha_cli.backends.cuda.homes import own_files

        return own_files(self.upstream, home)

    def source_tree(self, surroundings: Surroundings) -> SourceTree:
        from fmha_cli.backends.cuda.homes import source_tree

        return source_tree(self.upstream, surroundings)

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
        from fmha_cli.backends.cuda.dry_run import describe_launches

        return describe_launches(self.upstream, plan, artifacts, tensors, device)
