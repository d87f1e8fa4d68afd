"""Upstream's generated files for given kernels, and the sources that they need; without sources, tests are skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.tree import CkTree, pinned_tree
from fmha_cli.backends.ck_tile.upstream_names import upstream_name
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.referees.ck_tile.upstream_arguments import Node, read

DRIVER = Path(__file__).with_name("generated_driver.py")
RECEIPTS = ("0", "800", "1")
"""Together they emit every kernel of the baseline: all but fp32; fp32; and the fully padded ``qr``."""
APIS = {
    Family.FWD: "fwd",
    Family.FWD_SPLITKV: "fwd_splitkv",
    Family.FWD_SPLITKV_COMBINE: "fwd_splitkv",
    Family.FWD_PAGEDKV: "pagedkv_prefill",
    Family.FWD_APPENDKV: "fwd_appendkv",
    Family.BATCH_PREFILL: "batch_prefill",
    Family.BWD_DOT_DO_O: "bwd",
    Family.BWD_DQ_DK_DV: "bwd",
    Family.BWD_CONVERT_DQ: "bwd",
}


def baseline(cache_root: Path) -> CkTree:
    """The pinned tree, with upstream's generator."""
    try:
        return pinned_tree(cache_root, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"the sources of Composable Kernel are not here: {fault}")


@cache
def type_configs(example: Path) -> Mapping[str, Mapping[str, Node]]:
    """``FmhaFwdTypeConfig<...>`` and ``FmhaBwdTypeConfig<...>`` of upstream's headers."""
    texts = [read((example / name).read_text("utf-8")) for name in ("fmha_fwd.hpp", "fmha_bwd.hpp")]
    return {name: rows for text in texts for name, rows in text.members.items() if "TypeConfig" in name}


def generated(tree: CkTree, kernels: Iterable[KernelSpec]) -> dict[KernelSpec, str]:
    """Upstream's file for each kernel; all kernels must share one architecture and API.

    Raises:
        AssertionError: the generator emits one of them under none of the receipts.
    """
    stems = {kernel: upstream_name(kernel) or kernel.name for kernel in kernels}
    ((api, arch),) = {(APIS[kernel.family], kernel.arch) for kernel in stems}
    found: dict[str, str] = {}
    for receipt in RECEIPTS:
        missing = sorted(set(stems.values()) - found.keys())
        if missing:
            found |= _run(tree, api, arch, receipt, missing)
    assert not set(stems.values()) - found.keys()
    return {kernel: found[stem] for kernel, stem in stems.items()}


def _run(tree: CkTree, api: str, arch: str, receipt: str, stems: list[str]) -> dict[str, str]:
    environ = {**os.environ, "PYTHONPATH": str(tree.generator), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(DRIVER), api, arch, receipt],
        input="\n".join(stems),
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return dict(json.loads(done.stdout))
