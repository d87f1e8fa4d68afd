"""The stable names: what a Python user calls and what a plugin may import. Re-exports, and five verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted, wanted_backends
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.arguments import in_python
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.decision import Decision, Supported, Trace, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.emulation import (
    Arithmetic,
    Attached,
    ChoosesArithmetic,
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
from fmha_cli.domain.errors import (
    DeviceLost,
    EnvironmentProblem,
    FmhaError,
    Interrupted,
    KernelFailure,
    UnsupportedError,
    UsageError,
)
from fmha_cli.domain.features import Alibi, Bias, CacheKind, Direction, Layout, Mode, QScale
from fmha_cli.domain.installation import CheckState, DoctorCheck, Surroundings
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.mask import Mask, MaskKind
from fmha_cli.domain.measuring import Canary, PeakLoops, Tunable
from fmha_cli.domain.passes import TwoPasses
from fmha_cli.domain.phases import Tell, Voice, silent
from fmha_cli.domain.plan import Artifact, Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, BoundTensor, BuildContext, HostSession, Remarking, Session
from fmha_cli.domain.rules import (
    ANGLES_RULE,
    CACHE_ITEM_RULE,
    CORE_RULES,
    LEFTPAD_CORE_RULES,
    OWN_V_RULE,
    SIGNATURE_RULE_IDS,
    Check,
    Reason,
    Refusal,
    Rule,
    Severity,
    reasons_against,
)
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.domain.signature import BiasKey, CacheKey, Fp8Key, MaskKey, ModeKey, Need, QScaleKey, RotaryKey, Signature
from fmha_cli.domain.tuning import Varied
from fmha_cli.domain.verdict import Verdict

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.cubin_backend import CubinBackend
    from fmha_cli.backends.cuda.driver import Cuda
    from fmha_cli.backends.cuda.emulated_image import emulated_image
    from fmha_cli.backends.cuda.inspect import cubin_figures, parameter_places
    from fmha_cli.backends.cuda.launch import Launch
    from fmha_cli.backends.cuda.modules import CudaKernel, PackedArguments, Shape
    from fmha_cli.backends.cuda.probe import archs_of, probe_cuda
    from fmha_cli.backends.cuda.session import CudaSession
    from fmha_cli.backends.cuda.tables import Expected
    from fmha_cli.backends.cuda.tensor_maps import TensorMap, encoded, rows_map
    from fmha_cli.backends.cuda.timing import StageTimer
    from fmha_cli.backends.cuda.upstream import Upstream
    from fmha_cli.backends.gpu.call import Call
    from fmha_cli.backends.gpu.emulator_library import EmulatorLibrary, read_report, variables_of
    from fmha_cli.backends.gpu.known_bad import noted
    from fmha_cli.backends.gpu.mirror import Mirror
    from fmha_cli.backends.gpu.session import GpuSession
    from fmha_cli.backends.hip.inspection import code_object_figures
    from fmha_cli.backends.hip.modules import HipArguments, HipKernel
    from fmha_cli.backends.hip.probe import probe_hip
    from fmha_cli.backends.hip.runtime import Hip
    from fmha_cli.backends.hip.session import HipSession
    from fmha_cli.backends.host.arrays import HostArrays, visible_keys
    from fmha_cli.backends.host.library import LibraryBackend, rules_from
    from fmha_cli.backends.host.masks import MaskForm, mask_forms, sees_nothing
    from fmha_cli.backends.host.session import LibrarySession
    from fmha_cli.report.record import Record
    from fmha_cli.run.attention import Attention
    from fmha_cli.toolchain.cache.key import BuildKind, BuildSpec
    from fmha_cli.toolchain.cache.root import cache_root
    from fmha_cli.toolchain.cpp.emulators import emulator_library
    from fmha_cli.toolchain.cpp.library import PORTABLE_FLAGS, build_cpp
    from fmha_cli.toolchain.cpp.many import build_units
    from fmha_cli.toolchain.cpp.toolchain import Compiler, Toolchain
    from fmha_cli.toolchain.cpp.units import Units, units_of
    from fmha_cli.toolchain.framework import (
        FrameworkBackend,
        check_release,
        environment,
        probe_package,
        release_refusal,
    )
    from fmha_cli.toolchain.kernels import kernel_build, no_build, no_build_key
    from fmha_cli.toolchain.parallel import Job, build_many
    from fmha_cli.toolchain.programs import build_by_program, program_key
    from fmha_cli.toolchain.rocm.candidates import llvm_tool
    from fmha_cli.toolchain.rocm.occupancy import limits_of


_LATE = {
    "CubinBackend": "fmha_cli.backends.cuda.cubin_backend",
    "Cuda": "fmha_cli.backends.cuda.driver",
    "Launch": "fmha_cli.backends.cuda.launch",
    "probe_cuda": "fmha_cli.backends.cuda.probe",
    "CudaSession": "fmha_cli.backends.cuda.session",
    "emulated_image": "fmha_cli.backends.cuda.emulated_image",
    "Expected": "fmha_cli.backends.cuda.tables",
    "CudaKernel": "fmha_cli.backends.cuda.modules",
    "PackedArguments": "fmha_cli.backends.cuda.modules",
    "Shape": "fmha_cli.backends.cuda.modules",
    "StageTimer": "fmha_cli.backends.cuda.timing",
    "Upstream": "fmha_cli.backends.cuda.upstream",
    "cubin_figures": "fmha_cli.backends.cuda.inspect",
    "parameter_places": "fmha_cli.backends.cuda.inspect",
    "TensorMap": "fmha_cli.backends.cuda.tensor_maps",
    "encoded": "fmha_cli.backends.cuda.tensor_maps",
    "rows_map": "fmha_cli.backends.cuda.tensor_maps",
    "Call": "fmha_cli.backends.gpu.call",
    "noted": "fmha_cli.backends.gpu.known_bad",
    "Mirror": "fmha_cli.backends.gpu.mirror",
    "GpuSession": "fmha_cli.backends.gpu.session",
    "probe_hip": "fmha_cli.backends.hip.probe",
    "Hip": "fmha_cli.backends.hip.runtime",
    "HostArrays": "fmha_cli.backends.host.arrays",
    "alibi_check": "fmha_cli.backends.host.checks",
    "full_cache_check": "fmha_cli.backends.host.checks",
    "rows_check": "fmha_cli.backends.host.checks",
    "visible_keys": "fmha_cli.backends.host.arrays",
    "LibraryBackend": "fmha_cli.backends.host.library",
    "rules_from": "fmha_cli.backends.host.library",
    "LibrarySession": "fmha_cli.backends.host.session",
    "MaskForm": "fmha_cli.backends.host.masks",
    "mask_forms": "fmha_cli.backends.host.masks",
    "sees_nothing": "fmha_cli.backends.host.masks",
    "HipArguments": "fmha_cli.backends.hip.modules",
    "HipKernel": "fmha_cli.backends.hip.modules",
    "HipSession": "fmha_cli.backends.hip.session",
    "code_object_figures": "fmha_cli.backends.hip.inspection",
    "BuildKind": "fmha_cli.toolchain.cache.key",
    "BuildSpec": "fmha_cli.toolchain.cache.key",
    "PORTABLE_FLAGS": "fmha_cli.toolchain.cpp.library",
    "build_cpp": "fmha_cli.toolchain.cpp.library",
    "build_units": "fmha_cli.toolchain.cpp.many",
    "emulator_library": "fmha_cli.toolchain.cpp.emulators",
    "Units": "fmha_cli.toolchain.cpp.units",
    "units_of": "fmha_cli.toolchain.cpp.units",
    "EmulatorLibrary": "fmha_cli.backends.gpu.emulator_library",
    "variables_of": "fmha_cli.backends.gpu.emulator_library",
    "read_report": "fmha_cli.backends.gpu.emulator_library",
    "archs_of": "fmha_cli.backends.cuda.probe",
    "FrameworkBackend": "fmha_cli.toolchain.framework",
    "check_release": "fmha_cli.toolchain.framework",
    "environment": "fmha_cli.toolchain.framework",
    "probe_package": "fmha_cli.toolchain.framework",
    "release_refusal": "fmha_cli.toolchain.framework",
    "kernel_build": "fmha_cli.toolchain.kernels",
    "no_build": "fmha_cli.toolchain.kernels",
    "no_build_key": "fmha_cli.toolchain.kernels",
    "Job": "fmha_cli.toolchain.parallel",
    "build_many": "fmha_cli.toolchain.parallel",
    "cache_root": "fmha_cli.toolchain.cache.root",
    "build_by_program": "fmha_cli.toolchain.programs",
    "program_key": "fmha_cli.toolchain.programs",
    "Compiler": "fmha_cli.toolchain.cpp.toolchain",
    "Toolchain": "fmha_cli.toolchain.cpp.toolchain",
    "Attention": "fmha_cli.run.attention",
    "limits_of": "fmha_cli.toolchain.rocm.occupancy",
    "llvm_tool": "fmha_cli.toolchain.rocm.candidates",
}


def __getattr__(name: str) -> Any:
    """Import a slow name on first use: listing kernels imports every plugin but builds nothing."""
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def hip_host_files() -> dict[str, str]:
    """Name -> text of the C++ files of a HIP runtime's host side, for a library that stands in for one."""
    files: dict[str, str] = import_module("fmha_cli.backends.hip.standin.sources").hip_host_files()
    return files


def emulation_files() -> dict[str, str]:
    """Name -> text of the C++ files that emulators share; their names begin with ``emu_``."""
    files: dict[str, str] = import_module("fmha_cli.backends.gpu.emulation.sources").emulation_files()
    return files


def run(
    *problems: Problem,
    tensors: Mapping[str, object] | None = None,
    files: Mapping[str, object] | None = None,
    registry: Registry | None = None,
    phase: Tell = silent,
    **options: Any,
) -> tuple[Record, ...]:
    """``fmha run`` (or, with ``command=``, ``validate`` or ``bench``): one record for every row.

    Args:
        tensors: the problems' tensors by name, where not all of them are generated: arrays, names of files, or
            ``"filled"`` for one to generate, as in ``fmha_cli.run.attention.attention``.
        files: likewise; tensors may also go by the names of their flags.
        phase: called during long work as phase(what, done, total), from any thread.
        options: further fields of ``fmha_cli.run.request.Request``: backend, arch, device, kernel, out, fills, fill_seed,
            check, threads, timeout, all_kernels ...

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: before anything runs.
        KeyboardInterrupt: the user interrupted.
    """
    from fmha_cli.run.given_arrays import given_tensors, merged, request_with
    from fmha_cli.run.run import Run

    try:
        given, texts = given_tensors(merged(tensors or {}, files or {}))
        request = request_with(options, texts)
        return Run(problems, request, registry or build_registry(), given=given, voice=Voice(phase=phase)).records()
    except UsageError as fault:
        in_python(fault)
        raise


def attention(q: object, k: object, v: object = None, **options: Any) -> Attention:
    """Fused attention on arrays by the kernel that ``fmha run`` would choose, with its record.

    ``api.attention(q, k, v, causal=True).o``; all arguments are those of ``fmha_cli.run.attention.attention``.

    Raises:
        UsageError, UnsupportedError, EnvironmentProblem, KernelFailure: see there.
    """
    from fmha_cli.run.attention import attention as on_arrays

    return on_arrays(q, k, v, **options)


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
    from fmha_cli.run.probing import probe_backends

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
    "ANGLES_RULE", "CACHE_ITEM_RULE", "CORE_RULES", "LEFTPAD_CORE_RULES", "OWN_V_RULE", "PORTABLE_FLAGS", "SIGNATURE_RULE_IDS", "Algorithm", "Alibi",
    "ArchSpec", "Arithmetic", "Artifact", "Attached", "Attention", "Availability", "Backend", "Bias", "BiasKey", "BoundTensor",
    "BuildContext", "BuildKind", "BuildSpec", "CacheKey", "CacheKind", "Call", "Canary", "Check", "CheckState",
    "ChoosesArithmetic", "Compiler", "CubinBackend", "Cuda", "CudaKernel", "CudaSession", "DType", "Decision", "DeviceFacts", "DeviceLost",
    "Direction", "DoctorCheck", "Emulator", "EmulatorLibrary", "EmulatorOptions", "EnvironmentProblem", "Executed",
    "Expected", "Family", "Finding", "FindingKind", "FmhaError", "Fp8Key", "FrameworkBackend", "GpuSession", "Hip",
    "HipArguments", "HipKernel", "HipSession", "HostArrays", "HostSession", "Interrupted", "Job", "KernelFailure",
    "KernelSpec", "Launch", "Layout", "LibraryBackend", "LibrarySession", "Mask", "MaskForm", "MaskKey", "MaskKind",
    "Mirror", "Mode", "ModeKey", "Need", "Observed", "PackedArguments", "PeakLoops", "Plan", "Problem", "QScale",
    "QScaleKey", "Reason", "Refusal", "Region", "Registry", "Remarking", "RotaryKey", "Rule", "Session", "Settings",
    "SettingsFrom", "Severity", "Shape", "Signature", "Stage", "StageTimer", "State", "Supported", "Surroundings",
    "TensorMap", "Toolchain", "Trace", "Tunable", "TwoPasses", "Units", "Unsupported",
    "UnsupportedError", "Upstream", "UsageError", "Varied", "Verdict", "Workspace", "archs_of", "attention", "build_by_program",
    "build_cpp", "build_many", "build_registry", "build_units", "cache_root", "check_release", "code_object_figures", "cubin_figures",
    "emulated_image", "emulation_files", "emulator_library", "encoded", "environment", "explain", "from_json", "hip_host_files", "hookimpl", "kernel_build", "limits_of",
    "list_kernels", "llvm_tool", "load_arch", "mask_forms", "merged", "no_build", "no_build_key", "noted", "parameter_places",
    "probe_cuda", "probe_hip", "probe_package", "program_key", "read_report", "reasons_against", "release_refusal", "rows_map",
    "rules_from", "run", "sees_nothing", "select", "summed", "to_json", "units_of", "variables_of", "visible_keys",
]  # fmt: skip
