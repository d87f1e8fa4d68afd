"""Thirty kernels of common use compile: NVRTC to PTX, then ptxas. ``inspect`` agrees with any installed NVIDIA tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import kernels
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn_3.emit import SYMBOL
from fmha_cli.codegen.flash_attn_3.instance import WRITTEN, instance_of
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.plugin import Artifact
from tests.checks.kernel_builds import KernelBuild, build, row_of
from tests.support.builds.nvrtc_context import nvrtc_context
from tests.support.referees import cubins

TYPES = {"fp16": "cutlass::half_t", "bf16": "cutlass::bfloat16_t", "fp8": "cutlass::float_e4m3_t"}
FLAGS = ("causal", "window", "softcap", "varlen", "paged", "append", "qv", "packed", "split")
"""The template arguments of ``run_flash_fwd`` in order; the last one, ``V_colmajor``, is false."""
DENSE = tuple(
    f"{dtype} {hdim} {hdim} {words}"
    for dtype in ("fp16", "bf16")
    for hdim in (64, 128, 256)
    for words in ("", "causal")
)
OTHERS = (
    *("bf16 128 128 cluster", "fp16 256 256 cluster"),
    *("bf16 96 96 causal", "bf16 192 128 causal", "bf16 128 128 window", "bf16 128 128 causal softcap"),
    *("bf16 128 128 causal packed", "fp8 128 128 causal", "fp8 128 128"),
    *(
        "bf16 64 64 causal varlen",
        "bf16 128 128 causal varlen",
        "bf16 128 128 varlen",
        "bf16 128 128 causal varlen packed",
    ),
    *("bf16 64 64 varlen packed split", "bf16 128 128 varlen packed split", "bf16 128 128 varlen paged packed split"),
    "bf16 64 512 causal varlen qv packed",
)
"""Served shapes, packed sequences, caches read in one step, and multi-head latent attention."""
COMBINE = "run_flash_fwd_combine<90, 8, 128, 5, false, false, cutlass::bfloat16_t, float>"


def template_ids() -> Iterator[str]:
    for line in (*DENSE, *OTHERS):
        dtype, hdim, hdim_v, *words = line.split()
        out = "bf16" if dtype == "fp8" else dtype
        cluster = 2 if "cluster" in words else 1
        flags = ", ".join("true" if name in words else "false" for name in FLAGS)
        yield f"run_flash_fwd<90, {hdim}, {hdim_v}, {cluster}, {TYPES[dtype]}, {TYPES[out]}, {flags}, false>"
    yield COMBINE


def chosen() -> list[KernelSpec]:
    every = {instance_of(kernel).template_id: kernel for kernel in kernels(load_arch("sm_90a"), WRITTEN)}
    return [every[name] for name in template_ids()]


def test_there_are_thirty() -> None:
    assert len({kernel.digest for kernel in chosen()}) == 30


@pytest.mark.slow
@pytest.mark.timeout(2 * 3600)
@pytest.mark.parametrize("kernel", chosen(), ids=lambda kernel: instance_of(kernel).template_id)
def test_a_kernel_builds_and_inspect_agrees(kernel: KernelSpec, shared_cache: Path) -> None:
    context, registry = nvrtc_context(UPSTREAM, shared_cache), build_registry()
    case = KernelBuild("flash_attn_3", "sm_90a", kernel.family.value, instance_of(kernel).template_id, "common use")
    row = row_of(case, kernel, build([kernel], registry, context)[kernel.digest], registry, referee)
    assert row["error"] is None, row["why"]
    assert row["disagreements"] == []
    known = row["memory_mib"] is not None  # unknown if the test process itself is larger
    assert not known or row["memory_mib"] < UPSTREAM.compile_bytes[kernel.family] >> 20


def referee(kernel: KernelSpec, artifact: Artifact, findings: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The disagreements of NVIDIA's tools, and properties that no kernel may have."""
    faults, _ = cubins.compared(artifact, findings, SYMBOL)
    for name in ("unknown_instructions", "extern_calls"):
        if findings[name]:
            faults.append(f"{name}: {findings[name]}")
    return faults, {}
