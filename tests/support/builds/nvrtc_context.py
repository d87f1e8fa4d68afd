"""Real compiles in tests: a context with a workshop whose compiler is NVRTC, or the reason why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.cuda.shop import workshop
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cuda.probe import CudaKind


def nvrtc_context(upstream: CubinUpstream, cache_root: Path, jobs: int = 1) -> BuildContext:
    """A context with the run's cache. Skips the test if NVRTC does not work or the pinned sources are missing."""
    context = BuildContext(cache_root, jobs=jobs)
    shop = workshop(upstream, context)
    if shop.toolchain is None or shop.toolchain.kind is not CudaKind.NVRTC:
        pytest.skip(f"NVRTC does not work here: {shop.fault.why if shop.fault else 'nvcc would be used'}")
    try:
        shop.tree()
    except EnvironmentProblem as fault:
        pytest.skip(f"no sources of {upstream.source}: {fault.what}")
    return BuildContext(cache_root, jobs=jobs, prepared=shop)
