"""The stable names for plugins. What a Python user meets too (a problem, kernels, decisions, errors) is in ``fmha_cli.api``."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.driver import archs_of, probe_cuda
    from fmha_cli.backends.cuda.emulated_image import emulated_image
    from fmha_cli.backends.cuda.inspect import cubin_figures, parameter_places
    from fmha_cli.backends.cuda.modules import CudaKernel
    from fmha_cli.backends.cuda.session import CudaSession
    from fmha_cli.backends.cuda.tensor_maps import TensorMap, encoded, rows_map
    from fmha_cli.backends.gpu.call import Call
    from fmha_cli.backends.gpu.emulation import emulation_files
    from fmha_cli.backends.gpu.emulator_library import EmulatorLibrary, read_report, variables_of
    from fmha_cli.backends.gpu.index import (
        FamilyIndex,
        IndexedKernel,
        SmallSituation,
        core_question,
        decisions,
        index_of,
    )
    from fmha_cli.backends.gpu.known_bad import noted
    from fmha_cli.backends.gpu.launching import PackedArguments, Shape
    from fmha_cli.backends.gpu.mirror import Mirror
    from fmha_cli.backends.gpu.session import GpuSession
    from fmha_cli.backends.hip.inspection import code_object_figures
    from fmha_cli.backends.hip.runtime import probe_hip
    from fmha_cli.backends.hip.session import HipKernel, HipSession
    from fmha_cli.backends.host.checks import (
        MaskForm,
        alibi_check,
        full_cache_check,
        mask_forms,
        rows_check,
        sees_nothing,
    )
    from fmha_cli.backends.host.library import LibraryBackend, rules_from
    from fmha_cli.backends.host.session import HostArrays, LibrarySession, visible_keys
    from fmha_cli.discovery.hookspecs import hookimpl
    from fmha_cli.domain.arch import ArchSpec, load_arch
    from fmha_cli.domain.device import Availability, DeviceFacts, State
    from fmha_cli.domain.dtypes import DType
    from fmha_cli.domain.emulation import Attached, Emulator, EmulatorOptions, Observed
    from fmha_cli.domain.features import Alibi, Arithmetic, Bias, CacheKind, Layout, Mode, QScale
    from fmha_cli.domain.kernel import Algorithm, Family
    from fmha_cli.domain.mask import MaskKind
    from fmha_cli.domain.own import own
    from fmha_cli.domain.passes import TwoPasses
    from fmha_cli.domain.plan import Artifact, Plan, Stage, Workspace
    from fmha_cli.domain.protocols import Backend, BoundTensor, BuildContext, HostSession, Session
    from fmha_cli.domain.rules import (
        ANGLES_RULE,
        CORE_RULES,
        LEFTPAD_CORE_RULES,
        OWN_V_RULE,
        Refusal,
        Rule,
        Severity,
        reasons_against,
    )
    from fmha_cli.domain.signature import (
        BiasKey,
        CacheKey,
        Fp8Key,
        MaskKey,
        ModeKey,
        Need,
        QScaleKey,
        RotaryKey,
        Signature,
    )
    from fmha_cli.toolchain.cache.root import cache_root
    from fmha_cli.toolchain.cpp.library import build_cpp
    from fmha_cli.toolchain.cpp.many import build_units, emulator_library
    from fmha_cli.toolchain.cpp.toolchain import Compiler
    from fmha_cli.toolchain.cpp.units import Units, units_of
    from fmha_cli.toolchain.framework import (
        FrameworkBackend,
        check_release,
        environment,
        probe_package,
        release_refusal,
    )
    from fmha_cli.toolchain.kernels import build_by_program, kernel_build, no_build, no_build_key, program_key
    from fmha_cli.toolchain.rocm.candidates import llvm_tool
    from fmha_cli.toolchain.rocm.occupancy import limits_of
    from fmha_cli.workloads.recording import WorkloadRecorder


def __getattr__(name: str) -> Any:
    """Import a name on first use: listing kernels imports every plugin but builds nothing."""
    if name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_modules()[name]), name)
    return found


@cache
def _modules() -> dict[str, str]:
    """Name -> its module, read from the imports above, so that each name stands there once for Python and for type checkers."""
    block = next(one for one in ast.parse(Path(__file__).read_text("utf-8")).body if isinstance(one, ast.If))
    return {alias.name: str(one.module) for one in block.body if isinstance(one, ast.ImportFrom) for alias in one.names}


__all__ = [
    "ANGLES_RULE", "CORE_RULES", "LEFTPAD_CORE_RULES", "OWN_V_RULE", "Algorithm", "Alibi", "ArchSpec", "Arithmetic", "Artifact", "Attached",
    "Availability", "Backend", "Bias", "BiasKey", "BoundTensor", "BuildContext", "CacheKey", "CacheKind", "Call", "Compiler", "CudaKernel",
    "CudaSession", "DType", "DeviceFacts", "Emulator", "EmulatorLibrary", "EmulatorOptions", "Family", "FamilyIndex", "Fp8Key", "FrameworkBackend",
    "GpuSession", "HipKernel", "HipSession", "HostArrays", "HostSession", "IndexedKernel", "Layout", "LibraryBackend", "LibrarySession", "MaskForm", "MaskKey",
    "MaskKind", "Mirror", "Mode", "ModeKey", "Need", "Observed", "PackedArguments", "Plan", "QScale", "QScaleKey", "Refusal", "RotaryKey", "Rule",
    "Session", "Severity", "Shape", "Signature", "SmallSituation", "Stage", "State", "TensorMap", "TwoPasses", "Units", "WorkloadRecorder",
    "Workspace",
    "alibi_check", "archs_of", "build_by_program", "build_cpp", "build_units", "cache_root", "check_release", "code_object_figures", "core_question",
    "cubin_figures", "decisions", "emulated_image", "emulation_files", "emulator_library", "encoded", "environment", "full_cache_check",
    "hookimpl", "index_of", "kernel_build", "limits_of", "llvm_tool", "load_arch", "mask_forms", "no_build", "no_build_key",
    "noted", "own", "parameter_places", "probe_cuda", "probe_hip", "probe_package", "program_key", "read_report", "reasons_against",
    "release_refusal", "rows_check", "rows_map", "rules_from", "sees_nothing", "units_of", "variables_of", "visible_keys",
]  # fmt: skip
