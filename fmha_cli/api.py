"""The stable names: what a Python user calls and what a plugin may import. Re-exports, and four verbs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fmha_cli.arch import ArchSpec, load_arch
from fmha_cli.decision import Decision, Supported, Trace, Unsupported
from fmha_cli.device import Availability, DeviceFacts, State
from fmha_cli.dtypes import DType
from fmha_cli.emulation import (
    Attached,
    Emulator,
    EmulatorOptions,
    Executed,
    Finding,
    FindingKind,
    Observed,
    Region,
    merged,
    summed,
)
from fmha_cli.errors import (
    DeviceLost,
    EnvironmentProblem,
    FmhaError,
    Interrupted,
    KernelFailure,
    UnsupportedError,
    UsageError,
)
from fmha_cli.features import Alibi, Bias, CacheKind, Direction, Layout, Mode, QScale
from fmha_cli.hookspecs import hookimpl
from fmha_cli.kernel import Algorithm, Family, KernelSpec
from fmha_cli.mask import Mask, MaskKind
from fmha_cli.plan import Artifact, Plan, Stage, Workspace
from fmha_cli.problem import Problem
from fmha_cli.protocols import Backend, BoundTensor, BuildContext, HostSession, PeakLoops, Session
from fmha_cli.registry import Registry, build_registry
from fmha_cli.rules import CORE_RULES, LEFTPAD_CORE_RULES, Reason, Rule, Severity, reasons_against
from fmha_cli.select import Wanted, select, wanted_backends
from fmha_cli.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, QScaleKey, RotaryKey, Signature
from fmha_cli.verdict import Verdict

if TYPE_CHECKING:
    from fmha_cli.build.cpp import PORTABLE_FLAGS, build_cpp
    from fmha_cli.build.parallel import Job, build_many
    from fmha_cli.build.rocm.llvm_tools import llvm_tool
    from fmha_cli.build.rocm.occupancy import limits_of
    from fmha_cli.build.root import cache_root
    from fmha_cli.build.toolchain import Toolchain
    from fmha_cli.report.record import Record


_BUILDING = {
    "PORTABLE_FLAGS": "fmha_cli.build.cpp",
    "build_cpp": "fmha_cli.build.cpp",
    "Job": "fmha_cli.build.parallel",
    "build_many": "fmha_cli.build.parallel",
    "cache_root": "fmha_cli.build.root",
    "Toolchain": "fmha_cli.build.toolchain",
    "limits_of": "fmha_cli.build.rocm.occupancy",
    "llvm_tool": "fmha_cli.build.rocm.llvm_tools",
}


def __getattr__(name: str) -> Any:
    """Names that are slow to import, when first used: listing kernels imports every plugin, and builds nothing."""
    if name in _BUILDING:
        return getattr(import_module(_BUILDING[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def hip_host_files() -> dict[str, str]:
    """Name -> text of the C++ files of a HIP runtime's host side, for a library that stands in for one."""
    files: dict[str, str] = import_module("fmha_cli.backends.hip.standin.sources").hip_host_files()
    return files


def run(*problems: Problem, registry: Registry | None = None, **options: Any) -> tuple[Record, ...]:
    """``fmha run`` (or, with ``command=``, ``validate`` or ``bench``): one record for every row.

    Args:
        options: fields of ``fmha_cli.walk.request.Request``: backend, arch, device, kernel, files, out, fills,
            fill_seed, check, threads, timeout, all_kernels ...

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: before anything runs.
        KeyboardInterrupt: the user interrupted.
    """
    from fmha_cli.walk.request import Command, Request
    from fmha_cli.walk.run import run_points

    command = Command(options.pop("command", Command.RUN))
    outcome = run_points(problems, Request(command=command, **options), registry or build_registry())
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome.records


def explain(
    problem: Problem,
    *,
    registry: Registry | None = None,
    backend: str = "auto",
    arch: str | None = None,
    device: str | None = None,
    kernel: str | None = None,
) -> Trace:
    """``fmha explain``: every candidate kernel with Supported or all its Reasons.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: an unknown or absent backend, device or kernel.
    """
    from fmha_cli.walk.probing import probe_backends

    registry = registry or build_registry()
    wanted = Wanted(backend=backend, arch=arch, device=device, kernel=kernel)
    found = probe_backends(registry, wanted_backends(registry, wanted), device=device)
    return select(problem, registry, found, wanted).trace


def list_kernels(arch: str, *, backend: str = "auto", registry: Registry | None = None) -> Iterator[KernelSpec]:
    """``fmha list-kernels``: every kernel that exists for an architecture; needs no device and no compiler.

    Raises:
        UsageError: no such architecture or backend.
    """
    registry = registry or build_registry()
    spec = registry.arch(arch)
    for one in wanted_backends(registry, Wanted(backend=backend)):
        if arch in one.archs():
            yield from one.kernels(spec)


__all__ = [
    "CORE_RULES",
    "LEFTPAD_CORE_RULES",
    "PORTABLE_FLAGS",
    "Algorithm",
    "Alibi",
    "ArchSpec",
    "Artifact",
    "Attached",
    "Availability",
    "Backend",
    "Bias",
    "BiasKey",
    "BoundTensor",
    "BuildContext",
    "CacheKey",
    "CacheKind",
    "DType",
    "Decision",
    "DeviceFacts",
    "DeviceLost",
    "Direction",
    "Emulator",
    "EmulatorOptions",
    "EnvironmentProblem",
    "Executed",
    "Family",
    "Finding",
    "FindingKind",
    "FmhaError",
    "HostSession",
    "Interrupted",
    "Job",
    "KernelFailure",
    "KernelSpec",
    "Layout",
    "Mask",
    "MaskKey",
    "MaskKind",
    "Mode",
    "ModeKey",
    "Need",
    "Observed",
    "PeakLoops",
    "Plan",
    "Problem",
    "QScale",
    "QScaleKey",
    "Reason",
    "Region",
    "Registry",
    "RotaryKey",
    "Rule",
    "Session",
    "Severity",
    "Signature",
    "Stage",
    "State",
    "Supported",
    "Toolchain",
    "Trace",
    "Unsupported",
    "UnsupportedError",
    "UsageError",
    "Verdict",
    "Workspace",
    "build_cpp",
    "build_many",
    "build_registry",
    "cache_root",
    "explain",
    "hip_host_files",
    "hookimpl",
    "limits_of",
    "list_kernels",
    "llvm_tool",
    "load_arch",
    "merged",
    "reasons_against",
    "run",
    "select",
    "summed",
]
