"""Kernels of the check ``cuda_builds``, built in the cache of the test run, and what holds for each of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.discovery.registry import build_registry
from tests.checks.cuda_builds import kernel_of, referee
from tests.checks.kernel_builds import KernelBuild, build, row_of
from tests.support.builds.nvrtc_context import nvrtc_context


def built_rows(upstream: CubinUpstream, cases: Sequence[KernelBuild], cache: Path) -> list[dict[str, Any]]:
    """The figures of cases, whose kernels NVRTC builds and ``inspect`` reads as NVIDIA's tools do. Skips the test
    if NVRTC or the sources are missing."""
    context = nvrtc_context(upstream, cache, len(os.sched_getaffinity(0)))
    registry = build_registry()
    kernels = [kernel_of(case, registry) for case in cases]
    built = build(kernels, registry, context)
    found = []
    for case, kernel in zip(cases, kernels, strict=True):
        row = row_of(case, kernel, built[kernel.digest], registry, referee)
        assert row["error"] is None, row["kernel"]
        assert row["disagreements"] == [], row["kernel"]
        assert row["unknown_instructions"] is None, row["kernel"]
        assert 0 < row["gpr"] <= 255
        assert row["spills_noted"]
        assert row["blocks_per_sm"] > 0
        known = row["memory_mib"] is not None  # unknown if the test process itself is larger
        reckoned = CubinBackend(upstream, False).compile_bytes(kernel) >> 20
        assert not known or row["memory_mib"] < reckoned, "more than the builds reckon with"
        found.append(row)
    return found
