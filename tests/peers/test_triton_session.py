"""The session of the Triton plugin on the stand-in driver of NVIDIA, with cubins that Triton compiled. No kernel runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from fmha_cli.domain.protocols import BuildContext

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
for module, package in (("triton", "triton"), ("cuda", "cuda-python")):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

from fmha_nvptx_emu.building import build_recorder  # noqa: E402

from tests.support.children import triton_session  # noqa: E402 - it imports what the lines above look for


@pytest.mark.promise("Arguments and TMA descriptors stand where the cubin records them.")
@pytest.mark.parametrize("case", triton_session.CASES, ids=lambda c: c.__name__)
def test_session(case: Callable[[str, str], None], shared_cache: Path) -> None:
    standin = build_recorder(BuildContext(cache_root=shared_cache, jobs=3))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(case, str(standin.path), str(shared_cache)).result(timeout=600)
