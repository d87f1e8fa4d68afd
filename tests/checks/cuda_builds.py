"""Build FlashAttention-2's and the memory-efficient kernels by NVRTC alone, and compare what ``fmha`` reads in them with NVIDIA's tools.

No driver, no GPU and no CUDA toolkit is used. ``flash_attn_kernels.json`` lists FlashAttention-2's by upstream's template-ids. Of the
memory-efficient kernels, the list has all 107 that NVRTC 13 compiles, on each of six architectures whose blocks may have the shared memory
that they need. If ``cuobjdump`` and ``nvdisasm`` are installed (a toolkit, or the packages ``nvidia-cuda-cuobjdump`` and
``nvidia-cuda-nvdisasm``), their output is compared. A row is good if its kernel was built by NVRTC, contains no unknown instruction, calls no
external code, and no figure differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from fmha_cli.api import KernelSpec, Registry, build_registry
from fmha_cli.backends.mem_efficient.catalogue import kernels
from fmha_cli.codegen.flash_attn.emit import SYMBOL
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.plugin import Artifact
from tests.checks.check import Check, Row
from tests.checks.kernel_builds import KernelBuild, built_row, good, key_of, listed, sort_of, summary
from tests.support.referees import cubins
from tests.support.referees.flash_attn.template_ids import kernel_of_template

FLASH, EFFICIENT = "flash_attn", "mem_efficient"
NVRTC = "NVRTC 13.0"
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CI = {"sm_75": "fmha_cutlassF_f16_aligned_64x64_rf_sm75", "sm_120": "fmha_cutlassB_bf16_aligned_128x64_k96_sm80"}
"""The memory-efficient kernels that CI compiles: forward for the oldest architecture, backward for the newest."""
registry = cache(build_registry)


def cases() -> Iterator[KernelBuild]:
    """Every kernel of both lists."""
    yield from listed(FLASH)
    for arch in ARCHS:
        for kernel in kernels(load_arch(arch)):
            traits = traits_of(kernel)
            if traits.shared_bytes <= load_arch(arch).fact("shared_per_block_optin"):
                shows = traits.name.removeprefix("fmha_cutlass")
                ci = CI.get(arch) == traits.name
                yield KernelBuild(EFFICIENT, arch, kernel.family.value, traits.name, shows, ci)


def kernel_of(case: KernelBuild, registry: Registry) -> KernelSpec:
    """The kernel of a case.

    Raises:
        LookupError: upstream has no such kernel for the architecture, or it belongs to another family.
    """
    arch = registry.arch(case.arch)
    if case.backend == FLASH:
        kernel = kernel_of_template(case.kernel, arch)
    else:
        kernel = {traits_of(k).name: k for k in kernels(arch)}[case.kernel]
    if kernel.family.value != case.family:
        raise LookupError(f"{case.kernel} is of {kernel.family.value}, not of {case.family}")
    return kernel


def referee(kernel: KernelSpec, artifact: Artifact, findings: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The disagreements of NVIDIA's tools, and properties that no kernel may have."""
    symbol = SYMBOL if kernel.backend == FLASH else traits_of(kernel).name
    faults, asked = cubins.compared(artifact, findings, symbol)
    if not str(findings["compiler"]).startswith(NVRTC):
        faults.append(f"it was compiled by {findings['compiler']}, not by {NVRTC}")
    if findings["unknown_instructions"]:
        faults.append(f"unknown instructions: {findings['unknown_instructions']}")
    if findings["extern_calls"]:
        faults.append(f"it calls {', '.join(findings['extern_calls'])}, which it does not hold")
    return faults, {
        "spill_store_bytes": findings["spills"]["store_bytes"],
        "spill_load_bytes": findings["spills"]["load_bytes"],
        "spills_noted": findings["spills_noted"],
        "shared_static_bytes": findings["shared_static_bytes"],
        "blocks_per_sm": findings["occupancy_limits"]["blocks"],
        "unknown_instructions": findings["unknown_instructions"],
        "cubin_kib": round(findings["cubin_bytes"] / 1024),
        "compared_with": asked,
    }


def carry_out(case: KernelBuild) -> Row:
    return built_row(case, kernel_of(case, registry()), registry(), referee)


CHECK = Check(
    cases=cases,
    name=lambda case: case.name,
    carry_out=carry_out,
    depends=lambda case: [key_of(kernel_of(case, registry()), registry()), *map(cubins.tool, cubins.TOOLS)],
    good=good,
    by=(sort_of, "arch"),
    summarise=summary,
)
